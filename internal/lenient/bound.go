package lenient

import (
	"fmt"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The bounds on one object in a cache.
const (
	// maxPart is how large a spec, a status or another part may be, in bytes. The largest in use are statuses with
	// a line for each of a few thousand nodes, and templates with parameters for each.
	maxPart = 512 << 10
	// MaxAnnotation is how long the value of an annotation may be that is read as a whole, in bytes.
	MaxAnnotation = 4 << 10
	// maxKept is how much of such a value is kept. A value that was cut, up to the end of a character, is still too
	// long to be read.
	maxKept = MaxAnnotation + utf8.UTFMax
)

// Bound drops the parts of an object that are too large. Each becomes a text, which readers report as a part of the
// wrong type, and nothing follows from it. An annotation is cut, since many annotations count by their key. A
// reader that needs the whole value refuses one of more than MaxAnnotation bytes.
func Bound(u *unstructured.Unstructured) {
	for name, part := range u.Object {
		if name != "metadata" && name != "apiVersion" && name != "kind" && sizeOf(part, maxPart) > maxPart {
			u.Object[name] = fmt.Sprintf("more than the %d bytes that Fettle reads of it", maxPart)
		}
	}
	metadata, _ := u.Object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	for key, value := range annotations {
		if text, is := value.(string); is {
			annotations[key] = Prefix(text, maxKept)
		}
	}
}

// BoundAnnotations cuts the values of annotations, as Bound does.
func BoundAnnotations(annotations map[string]string) {
	for key, text := range annotations {
		annotations[key] = Prefix(text, maxKept)
	}
}

// Prefix returns the first bytes of a text, up to the end of a character. It is for texts that are compared. Texts
// for users are cut by internal/sanitize.
func Prefix(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

// sizeOf returns roughly how many bytes a value has as JSON. It stops at the first sum above the limit.
func sizeOf(value any, limit int) int {
	const few = 8
	size := few
	switch v := value.(type) {
	case string:
		size += len(v)
	case []any:
		for i := 0; i < len(v) && size <= limit; i++ {
			size += sizeOf(v[i], limit-size)
		}
	case map[string]any:
		for key, within := range v {
			if size += len(key) + sizeOf(within, limit-size); size > limit {
				break
			}
		}
	}
	return size
}
