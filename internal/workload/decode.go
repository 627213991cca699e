package workload

import (
	"bytes"
	"errors"
	"fmt"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/fettle-io/fettle/internal/slim"
)

// This file decodes answers in place of the codecs of client-go. Those decode any kind that the server names, and two
// bytes of an answer can become an object of hundreds.

// decoding serializes the decoding of answers of all clusters. A decoded answer may take many times its size.
var decoding sync.Mutex //nolint:gochecknoglobals // it bounds what a process holds

// prefix begins every object that travels as protobuf.
var prefix = []byte{'k', '8', 's', 0} //nolint:gochecknoglobals // a constant

// The numbers of the fields that are read, as k8s.io/apimachinery defines them.
const (
	objectType, objectContent   = 1, 2
	typeVersion, typeKind       = 1, 2
	eventType, eventObject      = 1, 2
	extensionContent, listItems = 1, 2
)

var errNotProtobuf = errors.New("it sends something else than an object as protobuf")

// fields calls visit with each field of a message that is a string or a message. The content belongs to the
// message.
func fields(message []byte, visit func(number protowire.Number, content []byte)) error {
	for len(message) > 0 {
		number, form, tag := protowire.ConsumeTag(message)
		if tag < 0 {
			return errNotProtobuf
		}
		value := protowire.ConsumeFieldValue(number, form, message[tag:])
		if value < 0 {
			return errNotProtobuf
		}
		if form == protowire.BytesType {
			content, _ := protowire.ConsumeBytes(message[tag:])
			visit(number, content)
		}
		message = message[tag+value:]
	}
	return nil
}

// field returns the last field of a message that has the number, as protobuf demands.
func field(message []byte, wanted protowire.Number) ([]byte, error) {
	var found []byte
	err := fields(message, func(number protowire.Number, content []byte) {
		if number == wanted {
			found = content
		}
	})
	return found, err
}

// pair returns two fields of a message.
func pair(message []byte, first, second protowire.Number) (a, b []byte, err error) {
	if a, err = field(message, first); err == nil {
		b, err = field(message, second)
	}
	return a, b, err
}

// contentOf returns the content of an object of core/v1 that has the kind.
func contentOf(object []byte, kind string) ([]byte, error) {
	envelope, is := bytes.CutPrefix(object, prefix)
	if !is {
		return nil, errNotProtobuf
	}
	about, content, err := pair(envelope, objectType, objectContent)
	if err != nil {
		return nil, err
	}
	version, named, err := pair(about, typeVersion, typeKind)
	if err == nil && (string(version) != "v1" || string(named) != kind) {
		err = errNotNodes
	}
	return content, err
}

// decodeNode decodes a node.
func decodeNode(object []byte) (*slim.Node, error) {
	decoding.Lock()
	defer decoding.Unlock()
	content, err := contentOf(object, "Node")
	if err != nil {
		return nil, err
	}
	n := &slim.Node{}
	err = n.Unmarshal(content)
	return n, err
}

// decodeNodes decodes a page of nodes. A page with more nodes than most is an error.
func decodeNodes(object []byte, most int) (*slim.NodeList, error) {
	decoding.Lock()
	defer decoding.Unlock()
	content, err := contentOf(object, "NodeList")
	if err != nil {
		return nil, err
	}
	nodes := 0
	err = fields(content, func(number protowire.Number, _ []byte) {
		if number == listItems {
			nodes++
		}
	})
	switch {
	case err != nil:
		return nil, err
	case nodes > most:
		return nil, tooManyNodes(most)
	}
	list := &slim.NodeList{}
	err = list.Unmarshal(content)
	return list, err
}

// event is one event of a watch.
type event struct {
	kind watch.EventType
	node *slim.Node
}

// decodeEvent decodes an event. An event of the type ERROR becomes an error.
func decodeEvent(frame []byte) (event, error) {
	of, extension, err := pair(frame, eventType, eventObject)
	if err != nil {
		return event{}, err
	}
	object, err := field(extension, extensionContent)
	if err != nil {
		return event{}, err
	}
	if watch.EventType(of) == watch.Error {
		return event{}, failure(object)
	}
	n, err := decodeNode(object)
	return event{watch.EventType(of), n}, err
}

// failure returns the error that a Status describes. It decodes no large one.
func failure(object []byte) error {
	content, err := contentOf(object, "Status")
	if err != nil {
		return err
	}
	var status metav1.Status
	if len(content) > errorBytes || status.Unmarshal(content) != nil {
		return errNotProtobuf
	}
	return fmt.Errorf("watching nodes: %w", apierrors.FromObject(&status))
}
