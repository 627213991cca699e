// Package slim decodes the fields of watched objects that decisions read, and skips the rest. Nearly every
// event of a cluster is the heartbeat of a node. A node has some ten kilobytes, of which a few hundred matter.
//
// [Node] and [NodeList] stand in a scheme for those of core/v1 and decode from protobuf or JSON. [Meta]
// and [Metadata] are for kinds that dialects define, which travel as JSON:
//
//	func (m *Machine) UnmarshalJSON(body []byte) error {
//		var wire struct {
//			Metadata slim.Metadata `json:"metadata"`
//			Status   struct{ Phase string `json:"phase"` } `json:"status"`
//		}
//		if err := json.Unmarshal(body, &wire); err != nil {
//			return fmt.Errorf("decoding a machine: %w", err)
//		}
//		m.Meta, m.Phase = wire.Metadata.Keep("an-annotation-that-is-read"), wire.Status.Phase
//		return nil
//	}
//
// Such objects are for reading. Encoding one is an error, since a write would erase the skipped fields.
// Objects share their strings and lists, which must not be changed.
package slim
