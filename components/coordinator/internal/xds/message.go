package xds

import (
	"errors"
	"fmt"
	"math"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// node has the used fields of a stream's identity (envoy.config.core.v3.Node).
type node struct {
	id, cluster, nodeName string
	// agent and version of the proxy's program: Consul rejects old ones.
	agent   string
	version *version
}

type version struct{ major, minor, patch uint32 }

// Fields of envoy.service.discovery.v3.DeltaDiscoveryRequest. The fields after the node are
// forwarded unchanged, up to the last known one.
const (
	fieldNode = 1
	fieldLast = 9
)

// Fields of envoy.config.core.v3.Node.
const (
	nodeID, nodeCluster, nodeMetadata protowire.Number = 1, 2, 3
	nodeAgent, nodeBuild              protowire.Number = 6, 8
)

// keyNodeName is the metadata entry of a Node from which Consul takes the node's name.
const keyNodeName = "node_name"

var (
	errMalformed = errors.New("the message is no DeltaDiscoveryRequest")
	errNoNode    = errors.New("the stream's first message has no node")
)

// first parses the first message of a stream: its node, and the rest of it. It rejects fields that
// a reader of protobuf would merge, or of which it would take the last: two readers must not see
// two nodes.
func first(message []byte) (node, []byte, error) {
	var (
		n    node
		seen bool
		rest []byte
	)
	err := fields(message, func(num protowire.Number, typ protowire.Type, raw, value []byte) error {
		switch {
		case num == fieldNode && typ != protowire.BytesType, num == fieldNode && seen:
			return errMalformed
		case num == fieldNode:
			seen = true
			var err error
			n, err = readNode(value)
			return err
		case num <= fieldLast:
			rest = append(rest, raw...)
		}
		return nil
	})
	if err == nil && !seen {
		err = errNoNode
	}
	return n, rest, err
}

// later returns a later message of a stream without its node.
func later(message []byte) ([]byte, error) {
	rest := make([]byte, 0, len(message))
	err := fields(message, func(num protowire.Number, _ protowire.Type, raw, _ []byte) error {
		if num != fieldNode && num <= fieldLast {
			rest = append(rest, raw...)
		}
		return nil
	})
	return rest, err
}

// withNode returns a message with the judged fields of n, and rest.
func withNode(n node, rest []byte) []byte {
	var text, entry, metadata, out []byte
	text = protowire.AppendString(protowire.AppendTag(text, 3, protowire.BytesType), n.nodeName)
	entry = protowire.AppendString(protowire.AppendTag(entry, 1, protowire.BytesType), keyNodeName)
	entry = protowire.AppendBytes(protowire.AppendTag(entry, 2, protowire.BytesType), text)
	metadata = protowire.AppendBytes(protowire.AppendTag(metadata, 1, protowire.BytesType), entry)
	out = protowire.AppendString(protowire.AppendTag(out, nodeID, protowire.BytesType), n.id)
	out = protowire.AppendString(protowire.AppendTag(out, nodeCluster, protowire.BytesType), n.cluster)
	out = protowire.AppendBytes(protowire.AppendTag(out, nodeMetadata, protowire.BytesType), metadata)
	if n.agent != "" {
		out = protowire.AppendString(protowire.AppendTag(out, nodeAgent, protowire.BytesType), n.agent)
	}
	if v := n.version; v != nil {
		var numbers, build []byte
		for i, number := range []uint32{v.major, v.minor, v.patch} {
			numbers = protowire.AppendVarint(protowire.AppendTag(numbers, protowire.Number(i+1), protowire.VarintType), uint64(number))
		}
		build = protowire.AppendBytes(protowire.AppendTag(build, 1, protowire.BytesType), numbers)
		out = protowire.AppendBytes(protowire.AppendTag(out, nodeBuild, protowire.BytesType), build)
	}
	message := protowire.AppendBytes(protowire.AppendTag(nil, fieldNode, protowire.BytesType), out)
	return append(message, rest...)
}

func readNode(message []byte) (node, error) {
	var n node
	text := func(into *string) func([]byte) error {
		return func(value []byte) error {
			if !utf8.Valid(value) {
				return errMalformed
			}
			*into = string(value)
			return nil
		}
	}
	parts := map[protowire.Number]func(value []byte) error{
		nodeID: text(&n.id), nodeCluster: text(&n.cluster), nodeAgent: text(&n.agent),
		nodeMetadata: func(value []byte) (err error) { n.nodeName, err = readNodeName(value); return err },
		nodeBuild:    func(value []byte) (err error) { n.version, err = readBuild(value); return err },
	}
	once := map[protowire.Number]bool{}
	err := fields(message, func(num protowire.Number, typ protowire.Type, _, value []byte) error {
		read, asked := parts[num]
		if !asked {
			return nil
		}
		if typ != protowire.BytesType || once[num] {
			return fmt.Errorf("node: field %d is repeated or of another kind", num)
		}
		once[num] = true
		return read(value)
	})
	return n, err
}

// readNodeName returns node_name of a google.protobuf.Struct.
func readNodeName(message []byte) (string, error) {
	name, seen := "", false
	err := fields(message, func(num protowire.Number, typ protowire.Type, _, entry []byte) error {
		if num != 1 || typ != protowire.BytesType {
			return errMalformed
		}
		key, value, err := readEntry(entry)
		if err != nil || key != keyNodeName {
			return err
		}
		if seen {
			return errors.New("node.metadata: node_name is repeated")
		}
		seen = true
		name, err = readText(value)
		return err
	})
	return name, err
}

// readEntry parses an entry of a map from strings to messages.
func readEntry(message []byte) (key string, value []byte, err error) {
	var keys, values int
	err = fields(message, func(num protowire.Number, typ protowire.Type, _, field []byte) error {
		switch {
		case typ != protowire.BytesType:
			return errMalformed
		case num == 1:
			key = string(field)
			keys++
		case num == 2:
			value = field
			values++
		}
		return nil
	})
	if err == nil && (keys != 1 || values != 1) {
		err = errors.New("node.metadata: an entry has several keys or values, or none")
	}
	return key, value, err
}

// readText parses a google.protobuf.Value that is a text.
func readText(message []byte) (string, error) {
	text, seen := "", 0
	err := fields(message, func(num protowire.Number, typ protowire.Type, _, value []byte) error {
		seen++
		if num != 3 || typ != protowire.BytesType {
			seen++
		}
		text = string(value)
		return nil
	})
	if err == nil && seen != 1 {
		err = errors.New("node.metadata: node_name is no text")
	}
	return text, err
}

// readBuild parses the version of an envoy.config.core.v3.BuildVersion.
func readBuild(message []byte) (*version, error) {
	var numbers [3]uint32
	err := fields(message, func(num protowire.Number, typ protowire.Type, _, value []byte) error {
		if num != 1 {
			return nil
		}
		if typ != protowire.BytesType {
			return errMalformed
		}
		return fields(value, func(num protowire.Number, typ protowire.Type, raw, _ []byte) error {
			_, _, tag := protowire.ConsumeTag(raw)
			number, n := protowire.ConsumeVarint(raw[tag:])
			if typ != protowire.VarintType || n < 0 || num > 3 || number > math.MaxUint32 {
				return errMalformed
			}
			numbers[num-1] = uint32(number)
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return &version{numbers[0], numbers[1], numbers[2]}, nil
}

// fields calls each for every field of a message: raw is the whole field, value its content if it
// has a length. Groups, obsolete for a decade, are rejected.
func fields(message []byte, each func(num protowire.Number, typ protowire.Type, raw, value []byte) error) error {
	for len(message) > 0 {
		num, typ, tag := protowire.ConsumeTag(message)
		if tag < 0 || typ == protowire.StartGroupType || typ == protowire.EndGroupType {
			return errMalformed
		}
		size := protowire.ConsumeFieldValue(num, typ, message[tag:])
		if size < 0 {
			return errMalformed
		}
		var value []byte
		if typ == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(message[tag:])
		}
		if err := each(num, typ, message[:tag+size], value); err != nil {
			return err
		}
		message = message[tag+size:]
	}
	return nil
}
