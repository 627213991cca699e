package main

import (
	"encoding/json"
	"fmt"
	"log/slog"

	"github.com/fettle-io/fettle/internal/sanitize"
)

// sanitizeAttr makes an attribute of a record fit to be shown. A log has the names, reasons and errors of what strangers
// write, and people read it on terminals.
func sanitizeAttr(_ []string, a slog.Attr) slog.Attr {
	switch a.Value.Kind() { //nolint:exhaustive // the others have no text
	case slog.KindString:
		a.Value = slog.StringValue(sanitize.Line(sanitize.MaxMessage, a.Value.String()))
	case slog.KindAny:
		a.Value = sanitizeValue(a.Value)
	}
	return a
}

// sanitizeValue keeps a value whose JSON is fit to be shown, so that programs which read the log find it as it was.
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
