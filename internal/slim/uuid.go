package slim

// UUID is a UUID in its 16 bytes. The zero value is none.
type UUID [16]byte

// form is the form of a UUID: a letter is a hexadecimal digit.
const form = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"

// ParseUUID returns the UUID of a text in the usual form, in lower or upper case, or none of any other text.
func ParseUUID(text string) UUID { return parseUUID([]byte(text)) }

func parseUUID(text []byte) UUID {
	var u UUID
	if len(text) != len(form) {
		return UUID{}
	}
	digits := 0
	for i, c := range text {
		if form[i] == '-' {
			if c != '-' {
				return UUID{}
			}
			continue
		}
		digit, valid := hexDigit(c)
		if !valid {
			return UUID{}
		}
		u[digits/2] = u[digits/2]<<4 | digit
		digits++
	}
	return u
}

func hexDigit(c byte) (byte, bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10, true
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}

// String returns the text of a UUID in lower case, or an empty text for none.
func (u UUID) String() string {
	if u == (UUID{}) {
		return ""
	}
	text, digits := []byte(form), 0
	for i, c := range text {
		if c == '-' {
			continue
		}
		text[i] = "0123456789abcdef"[u[digits/2]>>(4*(1-digits%2))&0xf]
		digits++
	}
	return string(text)
}
