package envoy

import (
	"fmt"
	"net"
	"net/netip"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protowire"
)

const (
	typeCluster  = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	typeListener = "type.googleapis.com/envoy.config.listener.v3.Listener"
	typeEcho     = "type.googleapis.com/envoy.extensions.filters.network.echo.v3.Echo"
)

// control is a server of configuration: each node gets one listener that echoes, as one for
// other machines, and one cluster with two endpoints.
type control struct {
	at netip.AddrPort

	mu      sync.Mutex
	mute    bool           // guarded by mu: it takes streams and answers nothing
	bad     bool           // guarded by mu: its listeners cannot be used
	ports   map[string]int // guarded by mu, by node
	asked   []node         // guarded by mu, those of the first requests
	headers []metadata.MD  // guarded by mu, of the streams
}

// node is an Envoy's own description in its first request.
type node struct {
	id, cluster string
	metadata    map[string]string
}

type rawCodec struct{}

func (rawCodec) Marshal(v any) ([]byte, error)      { return *v.(*[]byte), nil }
func (rawCodec) Unmarshal(data []byte, v any) error { *v.(*[]byte) = data; return nil }
func (rawCodec) Name() string                       { return "raw" }

func newControl(t *testing.T) *control {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &control{at: l.Addr().(*net.TCPAddr).AddrPort(), ports: map[string]int{}}
	server := grpc.NewServer(grpc.ForceServerCodec(rawCodec{}), grpc.UnknownServiceHandler(c.serve))
	var running sync.WaitGroup
	running.Go(func() { _ = server.Serve(l) })
	t.Cleanup(func() {
		server.Stop()
		running.Wait()
	})
	return c
}

// port is where the node's listener is.
func (c *control) port(id string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ports[id] == 0 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			panic(err)
		}
		c.ports[id] = l.Addr().(*net.TCPAddr).Port
		_ = l.Close()
	}
	return fmt.Sprintf("127.0.0.1:%d", c.ports[id])
}

func (c *control) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

func (c *control) nodes() ([]node, []metadata.MD) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked, c.headers
}

func (c *control) serve(_ any, stream grpc.ServerStream) error {
	md, _ := metadata.FromIncomingContext(stream.Context())
	method, _ := grpc.MethodFromServerStream(stream)
	c.set(func() { c.headers = append(c.headers, md) })
	if want := "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources"; method != want {
		return fmt.Errorf("asked for %s", method)
	}
	var who node
	for first := true; ; first = false {
		var data []byte
		if err := stream.RecvMsg(&data); err != nil {
			return err
		}
		req := fieldsOf(data)
		if first {
			who = nodeOf(req[1])
			c.set(func() { c.asked = append(c.asked, who) })
		}
		c.mu.Lock()
		mute, bad := c.mute, c.bad
		c.mu.Unlock()
		if mute || len(req[6]) > 0 { // a nonce: it is about an answer
			continue
		}
		var answer []byte
		switch kind := string(req[2]); kind {
		case typeCluster:
			answer = response(kind, "db", message(text(1, "db"), nested(33, message(text(1, "db"), nested(2, message(
				nested(2, nested(1, nested(1, address("127.50.1.1", 20000)))),
				nested(2, message(nested(1, nested(1, address("127.50.1.2", 20001))), number(2, 2))),
			))))))
		case typeListener:
			at, err := netip.ParseAddrPort(c.port(who.id))
			if err != nil {
				return err
			}
			filter := typeEcho
			if bad {
				filter += "Not"
			}
			answer = response(kind, "in", message(text(1, "in"), nested(2, address(at.Addr().String(), int(at.Port()))),
				nested(3, nested(3, message(text(1, "envoy.filters.network.echo"), nested(4, text(1, filter))))), number(16, 1)))
		default:
			continue
		}
		if err := stream.SendMsg(&answer); err != nil {
			return err
		}
	}
}

func response(kind, name string, resource []byte) []byte {
	return message(text(1, "1"),
		nested(2, message(text(1, "1"), nested(2, message(text(1, kind), nested(2, resource))), text(3, name))),
		text(4, kind), text(5, "nonce"))
}

// address is a core.v3.Address.
func address(host string, port int) []byte {
	return nested(1, message(text(2, host), number(3, port)))
}

func message(parts ...[]byte) []byte {
	var out []byte
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

func nested(n protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, n, protowire.BytesType), value)
}

func text(n protowire.Number, value string) []byte { return nested(n, []byte(value)) }

func number(n protowire.Number, value int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, n, protowire.VarintType), uint64(value))
}

// fieldsOf are the last values of a message's fields that have bytes.
func fieldsOf(data []byte) map[protowire.Number][]byte {
	out := map[protowire.Number][]byte{}
	each(data, func(n protowire.Number, value []byte) { out[n] = value })
	return out
}

func each(data []byte, f func(protowire.Number, []byte)) {
	for len(data) > 0 {
		n, kind, size := protowire.ConsumeTag(data)
		if size < 0 {
			return
		}
		data = data[size:]
		if kind == protowire.BytesType {
			value, size := protowire.ConsumeBytes(data)
			if size < 0 {
				return
			}
			f(n, value)
			data = data[size:]
			continue
		}
		if size = protowire.ConsumeFieldValue(n, kind, data); size < 0 {
			return
		}
		data = data[size:]
	}
}

func nodeOf(data []byte) node {
	f := fieldsOf(data)
	out := node{id: string(f[1]), cluster: string(f[2]), metadata: map[string]string{}}
	each(f[3], func(_ protowire.Number, entry []byte) {
		e := fieldsOf(entry)
		out.metadata[string(e[1])] = string(fieldsOf(e[2])[3])
	})
	return out
}
