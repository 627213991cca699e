package cli

import (
	"reflect"

	"github.com/spf13/cobra"

	"github.com/fettle-io/fettle/internal/sanitize"
)

// mostCell bounds a cell of a table, in bytes. The longest name of an object has 253.
const mostCell = 256

// sanitizeAnswer makes every text of an answer safe to show, in place. The answer is a pointer. It has names, messages
// and errors of objects that other users may write. Reflection covers fields that are added later too.
func sanitizeAnswer(answer any) { sanitizeValue(reflect.ValueOf(answer)) }

func sanitizeValue(v reflect.Value) {
	switch v.Kind() { //nolint:exhaustive // the others have no text
	case reflect.String:
		if v.CanSet() {
			v.SetString(sanitize.Line(sanitize.MaxMessage, v.String()))
		}
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			sanitizeValue(v.Elem())
		}
	case reflect.Struct:
		for _, field := range v.Fields() {
			sanitizeValue(field)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			sanitizeValue(v.Index(i))
		}
	case reflect.Map:
		sanitizeMap(v)
	}
}

// sanitizeMap replaces the values of a map, and drops the keys that are unsafe to show.
func sanitizeMap(m reflect.Value) {
	for _, key := range m.MapKeys() {
		value := reflect.New(m.Type().Elem()).Elem()
		value.Set(m.MapIndex(key))
		sanitizeValue(value)
		if key.Kind() == reflect.String && !isShowable(key.String()) {
			value = reflect.Value{}
		}
		m.SetMapIndex(key, value)
	}
}

// failureText returns the text of an error within an answer.
func failureText(err error) string { return sanitize.Failure(sanitize.MaxPart, err) }

// isShowable reports whether a name is safe to show.
func isShowable(name string) bool { return sanitize.Line(mostCell, name) == name }

// sanitizeErrors makes the errors of commands safe to show.
func sanitizeErrors(commands ...*cobra.Command) []*cobra.Command {
	for _, c := range commands {
		run := c.RunE
		c.RunE = func(cmd *cobra.Command, args []string) error { return sanitize.Err(run(cmd, args)) }
	}
	return commands
}
