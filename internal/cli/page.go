package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/term"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/fettle-io/fettle/internal/sanitize"
)

// colour is the colour of a word on a terminal. All codes have the same length, which keeps columns aligned.
type colour string

const (
	plain  colour = "\x1b[39m"
	red    colour = "\x1b[31m"
	green  colour = "\x1b[32m"
	yellow colour = "\x1b[33m"
	reset  string = "\x1b[0m"
)

// page prints an answer for people.
type page struct {
	io.Writer

	colours bool
	// at is the instant of the answer.
	at time.Time
	// mixed is set for an answer with health checks of several kinds, whose names may be equal.
	mixed bool
}

// check names a health check.
func (p *page) check(kind, name string) string {
	if p.mixed {
		return kind + " " + name
	}
	return name
}

// onTerminal reports whether colours may be used. It honours NO_COLOR (no-color.org).
func onTerminal(out io.Writer) bool {
	f, isFile := out.(*os.File)
	return isFile && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(f.Fd()))
}

func (p *page) printf(format string, args ...any) { fmt.Fprintf(p, format, args...) }

// in returns a text in a colour.
func (p *page) in(c colour, text string) string {
	if !p.colours || text == "" {
		return text
	}
	return string(c) + text + reset
}

// healthIn returns the colour of a verdict.
func healthIn(health string) colour {
	switch health {
	case "healthy":
		return green
	case "suspect", "unknown":
		return yellow
	case "unhealthy", "gone":
		return red
	}
	return plain
}

// cell is one cell of a table.
type cell struct {
	text   string
	colour colour
}

func text(s string) cell { return cell{s, plain} }

// table prints rows below a head. It leaves out a column that is empty in every row.
func (p *page) table(head []string, rows [][]cell) {
	used := make([]bool, len(head))
	for _, row := range rows {
		for i, c := range row {
			used[i] = used[i] || c.text != ""
		}
	}
	w := tabwriter.NewWriter(p, 0, 0, 3, ' ', 0)
	line := func(cells []cell) {
		var words []string
		for i, c := range cells {
			if !used[i] {
				continue
			}
			c.text = sanitize.Line(mostCell, c.text)
			if p.colours {
				c.text = string(c.colour) + c.text + reset
			}
			words = append(words, c.text)
		}
		fmt.Fprintln(w, strings.Join(words, "\t"))
	}
	heads := make([]cell, len(head))
	for i, h := range head {
		heads[i] = text(h)
	}
	line(heads)
	for _, row := range rows {
		line(row)
	}
	_ = w.Flush() // a terminal or a buffer: there is no other place for an error
}

// clock formats an instant, in UTC like every other text of Fettle.
func (p *page) clock(t *time.Time) string {
	if t == nil {
		return ""
	}
	if t.UTC().Format(time.DateOnly) == p.at.UTC().Format(time.DateOnly) {
		return t.UTC().Format("15:04:05Z")
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

// when formats an instant, with its distance from now.
func (p *page) when(t *time.Time) string {
	switch d := p.distance(t); {
	case t == nil:
		return ""
	case d > 0:
		return p.clock(t) + " (in " + duration.HumanDuration(d) + ")"
	case d < 0:
		return p.clock(t) + " (" + duration.HumanDuration(-d) + " ago)"
	}
	return "now"
}

func (p *page) ago(t *time.Time) string {
	return duration.HumanDuration(max(0, -p.distance(t))) + " ago"
}

// distance returns the time to an instant, in whole seconds.
func (p *page) distance(t *time.Time) time.Duration {
	if t == nil {
		return 0
	}
	return t.Sub(p.at.UTC().Truncate(time.Second))
}

func count(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

// sentence begins a text with a capital and ends it with a full stop.
func sentence(s string) string {
	if s == "" {
		return ""
	}
	s = strings.ToUpper(s[:1]) + s[1:]
	if strings.HasSuffix(s, ".") {
		return s
	}
	return s + "."
}

func limited(rows [][]cell, limit int) (shown [][]cell, left int) {
	if limit <= 0 {
		return rows, 0
	}
	n := min(len(rows), limit)
	return rows[:n], len(rows) - n
}

// more prints how many rows were left out.
func (p *page) more(left int, word string) {
	if left > 0 {
		p.printf("… and %s more (--limit 0 shows all)\n", count(left, word))
	}
}
