package xds

import (
	"bytes"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/structpb"
)

// request is DeltaDiscoveryRequest for the library of protobuf, with the fields that this test
// uses.
var request = func() protoreflect.MessageDescriptor {
	field := func(name string, number int32, kind descriptorpb.FieldDescriptorProto_Type, of string) *descriptorpb.FieldDescriptorProto {
		f := &descriptorpb.FieldDescriptorProto{Name: &name, Number: &number, Type: kind.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
		if of != "" {
			f.TypeName = &of
		}
		return f
	}
	const (
		text    = descriptorpb.FieldDescriptorProto_TYPE_STRING
		number  = descriptorpb.FieldDescriptorProto_TYPE_UINT32
		message = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE
	)
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("request.proto"), Package: proto.String("t"), Syntax: proto.String("proto3"),
		Dependency: []string{structpb.File_google_protobuf_struct_proto.Path()},
		MessageType: []*descriptorpb.DescriptorProto{
			{Name: proto.String("Numbers"), Field: []*descriptorpb.FieldDescriptorProto{field("major", 1, number, ""), field("minor", 2, number, ""), field("patch", 3, number, "")}},
			{Name: proto.String("Build"), Field: []*descriptorpb.FieldDescriptorProto{field("version", 1, message, ".t.Numbers")}},
			{Name: proto.String("Node"), Field: []*descriptorpb.FieldDescriptorProto{
				field("id", 1, text, ""), field("cluster", 2, text, ""), field("metadata", 3, message, ".google.protobuf.Struct"),
				field("agent", 6, text, ""), field("build", 8, message, ".t.Build"),
			}},
			{Name: proto.String("Request"), Field: []*descriptorpb.FieldDescriptorProto{field("node", 1, message, ".t.Node"), field("type_url", 2, text, "")}},
		},
	}, protoregistryFiles{})
	if err != nil {
		panic(err)
	}
	return file.Messages().ByName("Request")
}()

// protoregistryFiles resolves the one file that the descriptor needs.
type protoregistryFiles struct{}

func (protoregistryFiles) FindFileByPath(string) (protoreflect.FileDescriptor, error) {
	return structpb.File_google_protobuf_struct_proto, nil
}

func (protoregistryFiles) FindDescriptorByName(name protoreflect.FullName) (protoreflect.Descriptor, error) {
	return structpb.File_google_protobuf_struct_proto.Messages().ByName(name.Name()), nil
}

// asLibrary returns the node that the library decodes from a message, and the rest's type.
func asLibrary(message []byte) (n node, typeURL string, err error) {
	m := dynamicpb.NewMessage(request)
	if err := proto.Unmarshal(message, m); err != nil {
		return n, "", err
	}
	get := func(of protoreflect.Message, name protoreflect.Name) protoreflect.Value {
		return of.Get(of.Descriptor().Fields().ByName(name))
	}
	from := get(m, "node").Message()
	n = node{id: get(from, "id").String(), cluster: get(from, "cluster").String(), agent: get(from, "agent").String()}
	entries := get(get(from, "metadata").Message(), "fields").Map()
	if v := entries.Get(protoreflect.ValueOfString(keyNodeName).MapKey()); v.IsValid() {
		n.nodeName = get(v.Message(), "string_value").String()
	}
	if build := from.Descriptor().Fields().ByName("build"); from.Has(build) {
		numbers := get(from.Get(build).Message(), "version").Message()
		n.version = &version{uint32(get(numbers, "major").Uint()), uint32(get(numbers, "minor").Uint()), uint32(get(numbers, "patch").Uint())}
	}
	return n, get(m, "type_url").String(), nil
}

func same(a, b node) bool {
	if (a.version == nil) != (b.version == nil) || a.version != nil && *a.version != *b.version {
		return false
	}
	a.version, b.version = nil, nil
	return a == b
}

var web = node{id: "web-sidecar-proxy", cluster: "web", nodeName: "web-0", agent: "envoy", version: &version{1, 36, 4}}

// text encodes a text field, and within a message field.
func text(num protowire.Number, value string) []byte {
	return protowire.AppendString(protowire.AppendTag(nil, num, protowire.BytesType), value)
}

func within(num protowire.Number, parts ...[]byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, num, protowire.BytesType), bytes.Join(parts, nil))
}

func entry(name, value string) []byte {
	return within(1, text(1, name), within(2, text(3, value)))
}

// TestDOR08_OneReadingOfANode: every reader of protobuf decodes an accepted message in the same
// way. An ambiguous message is rejected.
func TestDOR08_OneReadingOfANode(t *testing.T) {
	good := [][]byte{text(1, "web-sidecar-proxy"), text(2, "web"), within(3, entry(keyNodeName, "web-0"))}
	with := func(more ...[]byte) []byte { return within(1, append(append([][]byte{}, good...), more...)...) }
	for name, c := range map[string]struct {
		message []byte
		refused string
	}{
		"as Envoy says it":            {with(text(6, "envoy"), within(8, within(1, []byte{8, 1, 16, 36})), within(9, text(1, "an extension"))), ""},
		"with more metadata":          {within(1, good[0], good[1], within(3, entry("namespace", "default"), entry(keyNodeName, "web-0"))), ""},
		"no node":                     {text(2, "type"), "no node"},
		"two nodes":                   {append(with(), within(1, text(1, "pg-sidecar-proxy"))...), "no DeltaDiscoveryRequest"},
		"two ids":                     {with(text(1, "pg-sidecar-proxy")), "field 1"},
		"two clusters":                {with(text(2, "pg")), "field 2"},
		"two metadata":                {with(within(3, entry(keyNodeName, "pg-0"))), "field 3"},
		"two node names":              {within(1, good[0], good[1], within(3, entry(keyNodeName, "web-0"), entry(keyNodeName, "pg-0"))), "repeated"},
		"two keys in an entry":        {within(1, good[0], good[1], within(3, within(1, text(1, "x"), text(1, keyNodeName), within(2, text(3, "pg-0"))))), "several keys"},
		"two values in an entry":      {within(1, good[0], good[1], within(3, within(1, text(1, keyNodeName), within(2, text(3, "web-0")), within(2, text(3, "pg-0"))))), "several keys"},
		"an entry without a key":      {within(1, good[0], good[1], within(3, within(1, within(2, text(3, "web-0"))))), "several keys"},
		"two texts in a value":        {within(1, good[0], good[1], within(3, within(1, text(1, keyNodeName), within(2, text(3, "web-0"), text(3, "pg-0"))))), "no text"},
		"a text and another value":    {within(1, good[0], good[1], within(3, within(1, text(1, keyNodeName), within(2, text(3, "web-0"), []byte{4 << 3, 1})))), "no text"},
		"a number as the node name":   {within(1, good[0], good[1], within(3, within(1, text(1, keyNodeName), within(2, []byte{4 << 3, 1})))), "no text"},
		"an id that is a number":      {within(1, []byte{1 << 3, 1}), "field 1"},
		"a node that is a number":     {[]byte{1 << 3, 1}, "no DeltaDiscoveryRequest"},
		"a group":                     {append(with(), 10<<3|3, 10<<3|4), "no DeltaDiscoveryRequest"},
		"half a message":              {with()[:20], "no DeltaDiscoveryRequest"},
		"a version that is no number": {with(within(8, within(1, text(1, "x")))), "no DeltaDiscoveryRequest"},
	} {
		n, _, err := first(c.message)
		if c.refused != "" {
			if err == nil || !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%s: %+v, %v; want it refused: %s", name, n, err, c.refused)
			}
			continue
		}
		if err != nil || n.id != "web-sidecar-proxy" || n.nodeName != "web-0" || n.cluster != "web" {
			t.Errorf("%s: %+v, %v", name, n, err)
		}
	}
}

// TestDOR08_TheForwardedMessageHasTheJudgedNode: the forwarded message has the judged fields of the node,
// the request's other fields, and no second node.
func TestDOR08_TheForwardedMessageHasTheJudgedNode(t *testing.T) {
	message := append(append(text(2, "type"), withNode(web, text(3, "a resource"))...), text(4, "another")...)
	message = append(message, text(77, "unknown")...)
	n, rest, err := first(message)
	if err != nil || !same(n, web) {
		t.Fatalf("%+v, %v", n, err)
	}
	if want := bytes.Join([][]byte{text(2, "type"), text(3, "a resource"), text(4, "another")}, nil); !bytes.Equal(rest, want) {
		t.Errorf("the rest is %q, want %q", rest, want)
	}
	if read, typeURL, err := asLibrary(withNode(n, rest)); err != nil || !same(read, web) || typeURL != "type" {
		t.Errorf("the library reads %+v, %s, %v", read, typeURL, err)
	}
	other := append(append(withNode(node{id: "pg-sidecar-proxy"}, text(2, "type")), within(1, text(1, "x"))...), text(6, "nonce")...)
	if got, err := later(other); err != nil || !bytes.Equal(got, append(text(2, "type"), text(6, "nonce")...)) {
		t.Errorf("a later message: %q, %v", got, err)
	}
}

// FuzzDOR08_First: the library decodes the same node from every accepted message and from the
// forwarded one. It finds none in a later message.
func FuzzDOR08_First(f *testing.F) {
	f.Add(withNode(web, text(2, "type")))
	f.Add(append(withNode(web, nil), withNode(node{id: "x"}, nil)...))
	f.Add(within(1, text(1, "a"), within(3, entry(keyNodeName, "b"), entry("c", "d")), within(8, within(1, []byte{8, 1}))))
	f.Fuzz(func(t *testing.T, message []byte) {
		left, err := later(message)
		if err == nil {
			if n, _, err := asLibrary(left); err == nil && !same(n, node{}) {
				t.Errorf("a later message still says %+v", n)
			}
		}
		n, rest, err := first(message)
		if err != nil {
			return
		}
		if !bytes.Equal(rest, left) {
			t.Errorf("the rest is %q as a first message and %q as a later one", rest, left)
		}
		// Consul uses the same library and rejects the same messages.
		if read, _, err := asLibrary(message); err == nil && !same(read, n) {
			t.Errorf("read %+v, the library %+v", n, read)
		}
		if read, _, err := asLibrary(withNode(n, rest)); err == nil && !same(read, n) {
			t.Errorf("sent on %+v, the library reads %+v", n, read)
		}
	})
}

func TestDOR08_Judge(t *testing.T) {
	c := Caller{Group: "web", Slot: "web-0", Boot: "b"}
	proxies := []Identity{{"web-sidecar-proxy", "web"}, {"web-api-sidecar-proxy", "web-api"}, {"", "nothing"}}
	for name, one := range map[string]struct {
		n       node
		proxies []Identity
		want    string // a part of the reason; "": permitted
	}{
		"own":                     {web, proxies, ""},
		"own, the other one":      {node{id: "web-api-sidecar-proxy", cluster: "web-api", nodeName: "web-0"}, proxies, ""},
		"node of a sibling":       {node{id: web.id, cluster: "web", nodeName: "web-1"}, proxies, `node_name is "web-1"`},
		"node that begins alike":  {node{id: web.id, cluster: "web", nodeName: "web-01"}, proxies, "node_name"},
		"no node":                 {node{id: web.id, cluster: "web"}, proxies, "node_name"},
		"node of a coordinator":   {node{id: web.id, cluster: "web", nodeName: "coordinator-0"}, proxies, "node_name"},
		"proxy of another group":  {node{id: "pg-sidecar-proxy", cluster: "pg", nodeName: "web-0"}, proxies, "web-0 may be"},
		"no id":                   {node{cluster: "nothing", nodeName: "web-0"}, proxies, "web-0 may be"},
		"another's service":       {node{id: web.id, cluster: "pg", nodeName: "web-0"}, proxies, "want web"},
		"service of its other":    {node{id: web.id, cluster: "web-api", nodeName: "web-0"}, proxies, "want web"},
		"a group without proxies": {web, nil, "no route"},
	} {
		err := judge(c, one.proxies, one.n)
		if (err == nil) != (one.want == "") || err != nil && !strings.Contains(err.Error(), one.want) {
			t.Errorf("%s: %v, want %q", name, err, one.want)
		}
	}
}

func TestTextsOfStatusComeThrough(t *testing.T) {
	for _, s := range []string{"", "plain", "100%", "a\nb", "für\x00", "%41"} {
		if got := decode(encode(s)); got != s {
			t.Errorf("%q became %q", s, got)
		}
	}
	if n := len(encode(strings.Repeat("x", 1<<20))); n > maxText {
		t.Errorf("%d bytes", n)
	}
}
