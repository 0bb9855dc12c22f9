package xds_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	consul "github.com/hashicorp/consul/api"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/protobuf/encoding/protowire"

	"cadre.dev/coordinator/internal/tokens"
	"cadre.dev/coordinator/internal/xds"
	"cadre.dev/store/storetest"
)

func TestMain(m *testing.M) {
	// The next test's Consul may still be starting after the last test.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("cadre.dev/store/storetest.startSpare"),
		goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"), goleak.IgnoreTopFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("os/exec.(*Cmd).Wait"), goleak.IgnoreAnyFunction("internal/poll.runtime_pollWait"))
}

const method = "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources"

// world is a real Consul with default deny, and a relay before its gRPC port.
type world struct {
	t      *testing.T
	server storetest.ConsulServer
	issuer *tokens.Issuer
	admin  *consul.Client
	relay  *xds.Relay
	logged *bytes.Buffer // the relay's log; read it after stop
	stop   func()
	closed sync.WaitGroup

	mu      sync.Mutex
	gone    map[string]bool           // guarded by mu; Boots that hold no Slot
	proxies map[string][]xds.Identity // guarded by mu; by group
}

func newWorld(t *testing.T, limits xds.Limits) *world {
	t.Helper()
	w := &world{t: t, server: storetest.StartConsulACL(t), logged: &bytes.Buffer{}, gone: map[string]bool{}, proxies: map[string][]xds.Identity{}}
	var err error
	if w.issuer, err = tokens.New(w.server.Addr, w.server.ManagementToken, tokens.TTL); err != nil {
		t.Fatal(err)
	}
	if w.admin, err = consul.NewClient(&consul.Config{Address: w.server.Addr, Token: w.server.ManagementToken}); err != nil {
		t.Fatal(err)
	}
	w.serve(w.server.XDS, limits, w.issuer)
	return w
}

// serve runs a relay before a Consul's gRPC port.
func (w *world) serve(address string, limits xds.Limits, issuer xds.Tokens) {
	w.relay = xds.New(xds.Config{
		Consul: address, Coordinator: "coordinator-0", BootID: "b007", Simulated: true, Tokens: issuer, Limits: limits, Now: time.Now,
		Log: slog.New(slog.NewTextHandler(w.logged, nil)),
		Holds: func(_, boot string) bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return !w.gone[boot]
		},
		Proxies: func(group string) []xds.Identity {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.proxies[group]
		},
	})
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	done := make(chan error, 1)
	go func() { done <- w.relay.Run(ctx) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("the relay ended: %v", err)
		}
		w.closed.Wait()
	})
	w.t.Cleanup(w.stop)
}

// change changes the results of Holds and Proxies, and calls Recheck.
func (w *world) change(what func()) {
	w.mu.Lock()
	what()
	w.mu.Unlock()
	w.relay.Recheck()
}

// member registers a Slot with its group's service and its proxy, as coordinators do, and returns
// its connection to the relay.
func (w *world) member(group, slot, address string) *member {
	w.t.Helper()
	w.register(fmt.Sprintf(`{"Node":%q,"Address":%q,"Service":{"ID":%q,"Service":%q,"Port":8080,"Address":%q},
		"Checks":[{"Node":%q,"CheckID":"%s:ready","Name":"ready","ServiceID":%q,"Status":"passing"}]}`, slot, address, group, group, address, slot, group, group))
	w.proxy(group, slot, address)
	w.mu.Lock()
	w.proxies[group] = []xds.Identity{{ID: group + "-sidecar-proxy", Service: group}}
	w.mu.Unlock()
	m := &member{w: w, caller: xds.Caller{Group: group, Slot: slot, Boot: "boot-" + slot}}
	m.connect()
	return m
}

// proxy registers the Slot's proxy, with these upstreams.
func (w *world) proxy(group, slot, address string, upstreams ...string) {
	w.t.Helper()
	var list []string
	for i, name := range upstreams {
		list = append(list, fmt.Sprintf(`{"DestinationName":%q,"LocalBindAddress":"127.10.0.%d","LocalBindPort":5432}`, name, i+1))
	}
	w.register(fmt.Sprintf(`{"Node":%q,"Address":%q,"Service":{"Kind":"connect-proxy","ID":"%s-sidecar-proxy","Service":"%s-sidecar-proxy","Port":20000,"Address":%q,
		"Proxy":{"DestinationServiceName":%q,"DestinationServiceID":%q,"LocalServiceAddress":"127.0.0.1","LocalServicePort":8080,"Upstreams":[%s]}}}`,
		slot, address, group, group, address, group, group, strings.Join(list, ",")))
}

func (w *world) register(body string) {
	w.t.Helper()
	if _, err := w.admin.Raw().Write("/v1/catalog/register", json.RawMessage(body), nil, nil); err != nil {
		w.t.Fatal(err)
	}
}

// accessors returns those of the streams' tokens.
func (w *world) accessors() []string {
	w.t.Helper()
	owned, err := w.issuer.XDSTokens(w.t.Context(), "coordinator-0")
	if err != nil {
		w.t.Fatal(err)
	}
	var out []string
	for _, t := range owned {
		out = append(out, t.Accessor)
	}
	return out
}

// member is a Slot's client of the relay, with one connection.
type member struct {
	w      *world
	caller xds.Caller
	conn   *grpc.ClientConn
	// over gets a value for each connection that the relay closed.
	over chan struct{}
	// leave ends its Session.
	leave context.CancelFunc

	mu   sync.Mutex
	came bytes.Buffer // guarded by mu; all received bytes
}

// connect opens a connection to the relay with the member's name.
func (m *member) connect() {
	m.w.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(m.w.t.Context()))
	m.over = make(chan struct{}, 64)
	var err error
	m.conn, err = grpc.NewClient("passthrough:///relay", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(raw{})), grpc.WithStaticStreamWindowSize(64<<10), grpc.WithStaticConnWindowSize(1<<20),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			near, far := net.Pipe()
			m.w.closed.Go(func() {
				m.w.relay.Serve(ctx, m.caller, far)
				select {
				case m.over <- struct{}{}:
				default:
				}
			})
			return &tap{Conn: near, member: m}, nil
		}))
	if err != nil {
		m.w.t.Fatal(err)
	}
	m.leave = cancel
	m.w.t.Cleanup(func() { cancel(); _ = m.conn.Close() })
}

// tap records all incoming bytes.
type tap struct {
	net.Conn
	member *member
}

func (t *tap) Read(p []byte) (int, error) {
	n, err := t.Conn.Read(p)
	t.member.mu.Lock()
	defer t.member.mu.Unlock()
	t.member.came.Write(p[:n])
	return n, err
}

// raw passes messages on unchanged.
type raw struct{}

func (raw) Name() string { return "proto" }

func (raw) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }

func (raw) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = bytes.Clone(data)
	return nil
}

var _ encoding.Codec = raw{}

// identity is the identity in a stream.
type identity struct{ id, cluster, node string }

// own is the identity in a member's own stream.
func (m *member) own() identity {
	return identity{m.caller.Group + "-sidecar-proxy", m.caller.Group, m.caller.Slot}
}

func text(num protowire.Number, value string) []byte {
	return protowire.AppendString(protowire.AppendTag(nil, num, protowire.BytesType), value)
}

func within(num protowire.Number, parts ...[]byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, num, protowire.BytesType), bytes.Join(parts, nil))
}

// message returns the node's part of a request, in Envoy's encoding.
func (n identity) message() []byte {
	entry := func(name, value string) []byte { return within(1, text(1, name), within(2, text(3, value))) }
	return within(1, text(1, n.id), text(2, n.cluster), within(3, entry("namespace", "default"), entry("node_name", n.node), entry("partition", "default")),
		text(6, "envoy"), within(8, within(1, []byte{8, 1, 16, 36, 24, 4})))
}

const (
	typeListener = "type.googleapis.com/envoy.config.listener.v3.Listener"
	typeCluster  = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
)

// envoy is a stream like Envoy's: it subscribes to all clusters and listeners and answers each
// message.
type envoy struct {
	grpc.ClientStream
	end context.CancelFunc
}

// open opens a stream with the identity n.
func (m *member) open(n identity) *envoy {
	m.w.t.Helper()
	e, err := m.begin(method)
	if err != nil {
		m.w.t.Fatal(err)
	}
	e.send(append(n.message(), text(2, typeCluster)...))
	e.send(append(n.message(), text(2, typeListener)...)) // Envoy sends its node with each message
	return e
}

func (m *member) begin(method string) (*envoy, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(m.w.t.Context()), 30*time.Second)
	m.w.t.Cleanup(cancel)
	stream, err := m.conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method)
	return &envoy{stream, cancel}, err
}

// send may fail after the stream has ended; receive returns the reason.
func (e *envoy) send(message []byte) { _ = e.SendMsg(&message) }

// answer of Consul.
type answer struct {
	typeURL, nonce string
	names, removed []string
	size           int
}

func (e *envoy) receive() (answer, error) {
	var message []byte
	if err := e.RecvMsg(&message); err != nil {
		return answer{}, err
	}
	a := answer{size: len(message)}
	err := eachField(message, func(num protowire.Number, value []byte) {
		switch int(num) {
		case 2:
			_ = eachField(value, func(num protowire.Number, name []byte) {
				if num == 3 {
					a.names = append(a.names, string(name))
				}
			})
		case 4:
			a.typeURL = string(value)
		case 5:
			a.nonce = string(value)
		case 6:
			a.removed = append(a.removed, string(value))
		}
	})
	e.send(append(text(2, a.typeURL), text(6, a.nonce)...))
	return a, err
}

func eachField(message []byte, each func(protowire.Number, []byte)) error {
	for len(message) > 0 {
		num, typ, tag := protowire.ConsumeTag(message)
		size := protowire.ConsumeFieldValue(num, typ, message[max(0, tag):])
		if tag < 0 || size < 0 {
			return errors.New("no message of protobuf")
		}
		if value, n := protowire.ConsumeBytes(message[tag:]); typ == protowire.BytesType && n > 0 {
			each(num, value)
		}
		message = message[tag+size:]
	}
	return nil
}

// until receives until the name of a resource begins with name.
func (e *envoy) until(t *testing.T, name string) answer {
	t.Helper()
	for {
		a, err := e.receive()
		if err != nil {
			t.Fatalf("waiting for %s: %v", name, err)
		}
		for _, n := range a.names {
			if strings.HasPrefix(n, name) {
				return a
			}
		}
	}
}

// ended receives until the stream ends.
func (e *envoy) ended() error {
	for {
		if _, err := e.receive(); err != nil {
			return err
		}
	}
}
