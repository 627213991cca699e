package logging

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"

	"github.com/fettle-io/fettle/internal/sanitize"
)

// New returns a log from a level on, in a format. The errors name the flags that both come from.
func New(to io.Writer, level, format string) (slog.Handler, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("--log-level is %q; it must be debug, info, warn or error", level)
	}
	options := &slog.HandlerOptions{Level: l, ReplaceAttr: sanitizeAttr}
	switch format {
	case "json":
		return slog.NewJSONHandler(to, options), nil
	case "text":
		return slog.NewTextHandler(to, options), nil
	}
	return nil, fmt.Errorf("--log-format is %q; it must be json or text", format)
}

// sanitizeAttr makes the text of an attribute safe to show. A log contains names, reasons and
// errors that other parties wrote, and users read it in terminals.
func sanitizeAttr(_ []string, a slog.Attr) slog.Attr {
	switch a.Value.Kind() { //nolint:exhaustive // the others have no text
	case slog.KindString:
		a.Value = slog.StringValue(sanitize.Line(sanitize.MaxMessage, a.Value.String()))
	case slog.KindAny:
		a.Value = sanitizeValue(a.Value)
	}
	return a
}

// sanitizeValue keeps a value whose JSON is safe to show, so that programs can parse it.
func sanitizeValue(v slog.Value) slog.Value {
	if err, is := v.Any().(error); is {
		return slog.StringValue(sanitize.Failure(sanitize.MaxMessage, err))
	}
	body, err := json.Marshal(v.Any())
	if err != nil {
		body = fmt.Append(nil, v.Any())
	}
	if text := sanitize.Line(sanitize.MaxMessage, string(body)); err != nil || text != string(body) {
		return slog.StringValue(text)
	}
	return v
}
