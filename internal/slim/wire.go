package slim

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/internal/core"
)

// The numbers of the fields that are read, as k8s.io/api/core/v1 and meta/v1 define them.
const (
	listMetadata, listItems                       = 1, 2
	listVersion, listContinue, listRemaining      = 2, 3, 4
	nodeMetadata, nodeStatus                      = 1, 3
	statusConditions, statusNodeInfo              = 4, 7
	infoBootID                                    = 3
	conditionType, conditionStatus                = 1, 2
	conditionTransition, conditionReason          = 4, 5
	metaName, metaNamespace, metaUID, metaVersion = 1, 3, 5, 6
	metaCreation, metaDeletion                    = 8, 9
	metaLabels, metaAnnotations                   = 11, 12
	entryKey, entryValue                          = 1, 2
	timestampSeconds                              = 1
)

// commonConditions and commonAnnotations are how many fit on the stack. More cost an allocation.
const commonConditions, commonAnnotations = 12, 4

// field is one encoded field of a message.
type field struct {
	number int
	form   protowire.Type
	// bytes is the content of a string or message, and varint that of a number.
	bytes  []byte
	varint uint64
}

// each calls visit with the fields of a message in their order.
func each(message []byte, visit func(field) error) error {
	for len(message) > 0 {
		f, n := firstField(message)
		if n < 0 {
			return fmt.Errorf("the message is broken: %w", protowire.ParseError(n))
		}
		message = message[n:]
		if err := visit(f); err != nil {
			return err
		}
	}
	return nil
}

// firstField reads the first field of a message and returns its length, which is negative if the message is broken.
func firstField(message []byte) (field, int) {
	number, form, tag := protowire.ConsumeTag(message)
	if tag < 0 {
		return field{}, tag
	}
	f, content := field{number: int(number), form: form}, message[tag:]
	var n int
	switch form { //nolint:exhaustive // no field that is read has another form
	case protowire.BytesType:
		f.bytes, n = protowire.ConsumeBytes(content)
	case protowire.VarintType:
		f.varint, n = protowire.ConsumeVarint(content)
	default:
		n = protowire.ConsumeFieldValue(number, form, content)
	}
	if n < 0 {
		return f, n
	}
	return f, tag + n
}

// text stores the content of a string. The caller must not keep it.
func (f field) text(into *[]byte) error {
	if f.form != protowire.BytesType {
		return f.misfit(protowire.BytesType)
	}
	*into = f.bytes
	return nil
}

// message calls visit with the fields of an embedded message.
func (f field) message(visit func(field) error) error {
	if f.form != protowire.BytesType {
		return f.misfit(protowire.BytesType)
	}
	return each(f.bytes, visit)
}

func (f field) number64(into *int64) error {
	if f.form != protowire.VarintType {
		return f.misfit(protowire.VarintType)
	}
	*into = int64(f.varint) //nolint:gosec // negative numbers are encoded in two's complement
	return nil
}

func (f field) misfit(want protowire.Type) error {
	return fmt.Errorf("field %d has wire type %d where %d is defined", f.number, f.form, want)
}

// time reads a timestamp as metav1.Time does: an empty message is no time, and nanoseconds don't count.
func (f field) time(into *time.Time) error {
	var seconds int64
	err := f.message(func(f field) error {
		if f.number == timestampSeconds {
			return f.number64(&seconds)
		}
		return nil
	})
	*into = time.Time{}
	if len(f.bytes) > 0 {
		*into = time.Unix(seconds, 0)
	}
	return err
}

func (l *NodeList) decode(message []byte) error {
	return each(message, func(f field) error {
		switch f.number {
		case listMetadata:
			return f.message(l.decodeMetadata)
		case listItems:
			l.Items = append(l.Items, Node{})
			return l.Items[len(l.Items)-1].decode(f)
		}
		return nil
	})
}

func (l *NodeList) decodeMetadata(f field) error {
	var text []byte
	switch f.number {
	case listVersion:
		err := f.text(&text)
		l.ResourceVersion = string(text)
		return err
	case listContinue:
		err := f.text(&text)
		l.Continue = string(text)
		return err
	case listRemaining:
		l.RemainingItemCount = new(int64)
		return f.number64(l.RemainingItemCount)
	}
	return nil
}

// decode decodes an item of a list.
func (n *Node) decode(item field) error {
	if err := item.message(n.decodeField); err != nil {
		return err
	}
	return n.checkIdentity()
}

func (n *Node) decodeField(f field) error {
	switch f.number {
	case nodeMetadata:
		return n.decodeMetadata(f)
	case nodeStatus:
		return n.decodeStatus(f)
	}
	return nil
}

func (n *Node) decodeStatus(status field) error {
	var buffer [commonConditions]core.Condition
	found := buffer[:0]
	err := status.message(func(f field) error {
		switch f.number {
		default:
			return nil
		case statusNodeInfo:
			return f.message(n.decodeInfo)
		case statusConditions:
		}
		if len(n.Conditions)+len(found) >= maxConditions {
			n.skip(tooManyConditions)
			return nil
		}
		found = append(found, core.Condition{})
		fits, err := decodeCondition(f, &found[len(found)-1])
		if !fits {
			found = found[:len(found)-1]
			n.skip(tooLongCondition)
		}
		return err
	})
	n.Conditions = append(n.Conditions, found...)
	return err
}

func (n *Node) decodeInfo(f field) error {
	if f.number != infoBootID {
		return nil
	}
	var text []byte
	err := f.text(&text)
	n.BootID = parseUUID(text)
	return err
}

// decodeCondition decodes a condition. It returns false if it is too long to be kept.
func decodeCondition(condition field, into *core.Condition) (fits bool, err error) {
	var kind, status, reason []byte
	err = condition.message(func(f field) error {
		switch f.number {
		case conditionType:
			return f.text(&kind)
		case conditionStatus:
			return f.text(&status)
		case conditionTransition:
			return f.time(&into.Since)
		case conditionReason:
			return f.text(&reason)
		}
		return nil
	})
	if max(len(kind), len(status), len(reason)) > maxWord {
		return false, err
	}
	into.Type, into.Status, into.Reason = shared.word(kind), shared.word(status), shared.word(reason)
	return true, err
}

// rawMeta is metadata whose strings the caller must not keep. A string that is missing is nil.
type rawMeta struct {
	name, namespace, uid, version []byte
	labels                        []rawEntry
	annotations                   []rawEntry
}

// rawEntry is an entry of a map.
type rawEntry struct{ key, value []byte }

func (n *Node) decodeMetadata(metadata field) error {
	var buffer [commonAnnotations]rawEntry
	raw := rawMeta{labels: shared.labelBuffer[:0], annotations: buffer[:0]}
	err := metadata.message(func(f field) error { return n.Meta.decodeField(f, &raw) })
	n.identify(&raw)
	n.label(raw.labels)
	n.annotate(raw.annotations)
	shared.release(raw.labels)
	return err
}

func (m *Meta) decodeField(f field, raw *rawMeta) error {
	switch f.number {
	case metaName:
		return f.text(&raw.name)
	case metaNamespace:
		return f.text(&raw.namespace)
	case metaUID:
		return f.text(&raw.uid)
	case metaVersion:
		return f.text(&raw.version)
	case metaCreation:
		return f.time(&m.CreationTimestamp.Time)
	case metaDeletion:
		m.DeletionTimestamp = &metav1.Time{}
		return f.time(&m.DeletionTimestamp.Time)
	case metaLabels:
		var label rawEntry
		err := f.message(label.decodeField)
		raw.labels = append(raw.labels, label)
		return err
	case metaAnnotations:
		return raw.decodeAnnotation(f)
	}
	return nil
}

func (e *rawEntry) decodeField(f field) error {
	switch f.number {
	case entryKey:
		return f.text(&e.key)
	case entryValue:
		return f.text(&e.value)
	}
	return nil
}

// decodeAnnotation stores an annotation if it is read.
func (r *rawMeta) decodeAnnotation(f field) error {
	var annotation rawEntry
	err := f.message(annotation.decodeField)
	if isRead(annotation.key) {
		r.annotations = append(r.annotations, annotation)
	}
	return err
}

// isRead reports whether an annotation of a node is read, by decisions or by informers. An annotation ends a
// streaming list.
func isRead(key []byte) bool {
	for i := range nodeAnnotations {
		if string(key) == nodeAnnotations[i] {
			return true
		}
	}
	return string(key) == metav1.InitialEventsAnnotationKey
}

// identify stores an object's own strings in one piece of memory.
func (m *Meta) identify(raw *rawMeta) {
	var b strings.Builder
	parts := [...][]byte{raw.name, raw.namespace, raw.uid, raw.version}
	b.Grow(len(raw.name) + len(raw.namespace) + len(raw.uid) + len(raw.version))
	for _, part := range parts {
		b.Write(part)
	}
	all := b.String()
	uid := string(m.UID)
	for i, own := range [...]*string{&m.Name, &m.Namespace, &uid, &m.ResourceVersion} {
		if parts[i] != nil {
			*own, all = all[:len(parts[i])], all[len(parts[i]):]
		}
	}
	m.UID = types.UID(uid)
}
