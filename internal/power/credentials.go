package power

import (
	"fmt"
	"log/slog"
)

const (
	// maxCredential bounds the user name and the password.
	maxCredential = 256
	// redacted is what is shown of credentials.
	redacted = "[redacted]"
)

// Credentials are a user name and a password. Only the drivers can read them: however they are rendered, they are redacted.
type Credentials struct {
	// reveal is a function, since printers that follow pointers and unexported fields can't print what it captured.
	reveal func() (username, password string)
}

// NewCredentials returns credentials.
func NewCredentials(username, password string) (Credentials, error) {
	if username == "" || password == "" {
		return Credentials{}, ConfigError("the user name and the password must both be set")
	}
	if len(username) > maxCredential || len(password) > maxCredential {
		return Credentials{}, ConfigError("the user name or the password is longer than 256 bytes")
	}
	return Credentials{reveal: func() (string, string) { return username, password }}, nil
}

// values returns the user name and the password.
func (c Credentials) values() (username, password string) {
	if c.reveal == nil {
		return "", ""
	}
	return c.reveal()
}

// Same reports whether both are the same credentials.
func (c Credentials) Same(other Credentials) bool {
	username, password := c.values()
	otherUsername, otherPassword := other.values()
	return username == otherUsername && password == otherPassword
}

// Format writes that the credentials are redacted, for every verb.
func (Credentials) Format(state fmt.State, _ rune) { fmt.Fprint(state, redacted) }

// String returns that the credentials are redacted.
func (Credentials) String() string { return redacted }

// GoString returns that the credentials are redacted.
func (Credentials) GoString() string { return redacted }

// MarshalText returns that the credentials are redacted. JSON and YAML use it too.
func (Credentials) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// LogValue returns that the credentials are redacted.
func (Credentials) LogValue() slog.Value { return slog.StringValue(redacted) }
