package main

import (
	"encoding/json"
	"fmt"
	"log/slog"

	"github.com/fettle-io/fettle/internal/sanitize"
)

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
