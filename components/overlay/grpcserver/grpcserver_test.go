package grpcserver

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"cadre.dev/raced/synctest"
)

const (
	unaryMethod = "/test.Calls/Unary"
	feedMethod  = "/test.Calls/Feed"
	watchMethod = "/test.Calls/Watch"
)

// calls serves a unary method, which unary answers, and two that stream until watch
// returns.
type calls struct {
	unary func(context.Context, []byte) error
	watch func(context.Context) error
}

func (c calls) register(s *grpc.Server) {
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: "test.Calls", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{
			MethodName: "Unary",
			Handler: func(_ any, ctx context.Context, dec func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
				in := new(wrapperspb.BytesValue)
				if err := dec(in); err != nil {
					return nil, err
				}
				return intercept(ctx, in, &grpc.UnaryServerInfo{FullMethod: unaryMethod}, func(ctx context.Context, _ any) (any, error) {
					return new(wrapperspb.BytesValue), c.unary(ctx, in.GetValue())
				})
			},
		}},
		Streams: []grpc.StreamDesc{
			{StreamName: "Watch", ServerStreams: true, Handler: c.stream},
			{StreamName: "Feed", ClientStreams: true, Handler: c.stream},
		},
	}, nil)
}

func (c calls) stream(_ any, stream grpc.ServerStream) error {
	if err := stream.RecvMsg(new(wrapperspb.BytesValue)); err != nil {
		return err
	}
	return c.watch(stream.Context())
}

func nothing(context.Context, []byte) error { return nil }

// pipes is a listener with unbuffered connections: the other side has read every written byte.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// caller speaks HTTP/2 by hand, as no well-behaved client does.
type caller struct {
	t       *testing.T
	conn    net.Conn
	framer  *http2.Framer
	block   bytes.Buffer
	encoder *hpack.Encoder
	next    uint32

	// ended reports how each call ended: its grpc-status, or "reset: " and the reason. It is closed
	// with the connection.
	ended chan outcome
}

type outcome struct {
	call uint32
	how  string
}

func serve(t *testing.T, l Limits, c calls) *pipes {
	t.Helper()
	server := New(l, grpc.WaitForHandlers(true))
	c.register(server)
	listener := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(listener) }()
	t.Cleanup(func() { server.Stop(); <-served })
	return listener
}

func call(t *testing.T, p *pipes) *caller {
	t.Helper()
	near, far := net.Pipe()
	p.conns <- far
	c := &caller{t: t, conn: near, framer: http2.NewFramer(near, near), next: 1, ended: make(chan outcome, 1<<16)}
	c.encoder = hpack.NewEncoder(&c.block)
	t.Cleanup(func() { _ = near.Close() })
	go c.read()
	if _, err := io.WriteString(near, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	if err := c.framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	return c
}

// dial makes a client as it should be.
func dial(t *testing.T, p *pipes) *grpc.ClientConn {
	t.Helper()
	near, far := net.Pipe()
	go func() { p.conns <- far }()
	cc, err := grpc.NewClient("passthrough:///pipe", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return near, nil }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cc.Close() })
	return cc
}

// read reads the server's frames; otherwise the server's writes would block.
func (c *caller) read() {
	defer close(c.ended)
	reader := http2.NewFramer(io.Discard, c.conn)
	reader.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	for {
		frame, err := reader.ReadFrame()
		if err != nil {
			return
		}
		switch f := frame.(type) {
		case *http2.MetaHeadersFrame:
			for _, field := range f.Fields {
				if field.Name == "grpc-status" {
					c.ended <- outcome{f.StreamID, field.Value}
				}
			}
		case *http2.RSTStreamFrame:
			c.ended <- outcome{f.StreamID, "reset: " + f.ErrCode.String()}
		case *http2.PingFrame:
			// Sent when data comes, to raise the window by how fast it does.
			c.ended <- outcome{0, "the server measures"}
		}
	}
}

// headers begins a call; end: with the last of them.
func (c *caller) headers(method string, end bool, more ...hpack.HeaderField) (call uint32, err error) {
	c.block.Reset()
	for _, f := range append([]hpack.HeaderField{
		{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: method},
		{Name: ":authority", Value: "test"}, {Name: "content-type", Value: "application/grpc"}, {Name: "te", Value: "trailers"},
	}, more...) {
		_ = c.encoder.WriteField(f) // into memory
	}
	call, c.next = c.next, c.next+2
	return call, c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: call, BlockFragment: c.block.Bytes(), EndHeaders: end})
}

func (c *caller) begin(method string) uint32 {
	c.t.Helper()
	id, err := c.headers(method, true)
	if err != nil {
		c.t.Fatal(err)
	}
	return id
}

// message is a gRPC message with a prefix that announces length bytes and with the payload sent.
func message(length int, sent []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(length)), sent...)
}

func (c *caller) data(call uint32, end bool, b []byte) {
	c.t.Helper()
	if err := c.framer.WriteData(call, end, b); err != nil {
		c.t.Fatal(err)
	}
}

func (c *caller) want(call uint32, how string) {
	c.t.Helper()
	got, ok := <-c.ended
	if !ok {
		c.t.Fatalf("the connection was closed, want call %d to end with %q", call, how)
	}
	if got != (outcome{call, how}) {
		c.t.Fatalf("call %d ended with %q, want %d with %q", got.call, got.how, call, how)
	}
}

func code(c codes.Code) string { return strconv.Itoa(int(c)) }

// A caller that sends headers without end is cut off within a few times their bound. The test sends
// many headers, one endless header, and one header that stands for many.
func TestINP01_HeadersWithoutEndAreCutOff(t *testing.T) {
	table := hpack.HeaderField{Name: "x", Value: string(bytes.Repeat([]byte{'v'}, 3<<10))}
	for name, next := range map[string]func(c *caller) []byte{
		"many": func(c *caller) []byte {
			c.block.Reset()
			for n := range 100 {
				_ = c.encoder.WriteField(hpack.HeaderField{Name: "x-" + strconv.Itoa(n), Value: string(bytes.Repeat([]byte{'v'}, 64)), Sensitive: true})
			}
			return bytes.Clone(c.block.Bytes())
		},
		// A literal with a new name and with a value of the greatest length that fits a number.
		"one": func(c *caller) []byte {
			if c.next == 3 {
				c.next = 5
				return append([]byte{0x00, 0x01, 'x', 0x7f, 0x80, 0xff, 0xff, 0x7f}, make([]byte, 1<<10)...)
			}
			return make([]byte, 1<<10)
		},
		"compressed": func(c *caller) []byte {
			c.block.Reset()
			for range 64 {
				_ = c.encoder.WriteField(table)
			}
			return bytes.Clone(c.block.Bytes())
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := call(t, serve(t, Limits{}, calls{unary: nothing}))
			id, err := c.headers(unaryMethod, false)
			if err != nil {
				t.Fatal(err)
			}
			sent := 0
			for sent < 12<<20 {
				b := next(c)
				if err = c.framer.WriteContinuation(id, false, b); err != nil {
					break
				}
				sent += len(b)
			}
			if err == nil || sent > 64<<10 {
				t.Errorf("%d bytes of headers were taken: %v", sent, err)
			}
			for range c.ended { // until the connection is closed
			}
		})
	}
}

// A call without a complete message ends in time, after any part of the message, and the connection
// serves on.
func TestINP04_HalfSentCallsEnd(t *testing.T) {
	for name, one := range map[string]struct {
		method string
		sent   []byte
	}{
		"nothing":                     {unaryMethod, nil},
		"a part of the prefix":        {unaryMethod, []byte{0, 0}},
		"a part of the message":       {unaryMethod, message(1<<20, make([]byte, 1000))},
		"nothing, of a stream":        {watchMethod, nil},
		"a stream without its end":    {watchMethod, message(0, nil)},
		"a part, of a stream":         {watchMethod, message(10, make([]byte, 9))},
		"a message and one more byte": {watchMethod, append(message(0, nil), 0)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := call(t, serve(t, Limits{HalfSent: 7 * time.Second}, calls{unary: nothing, watch: func(context.Context) error {
					t.Error("a handler began")
					return nil
				}}))
				began := time.Now()
				id := c.begin(one.method)
				if one.sent != nil {
					c.data(id, false, one.sent)
				}
				c.want(id, code(codes.DeadlineExceeded))
				if took := time.Since(began); took != 7*time.Second {
					t.Errorf("it took %v", took)
				}
				again := c.begin(unaryMethod)
				c.data(again, true, message(0, nil))
				for got := range c.ended {
					if got.call == again {
						if got.how != code(codes.OK) {
							t.Errorf("the next call ended with %s", got.how)
						}
						return
					}
				}
				t.Error("the connection was closed")
			})
		})
	}
}

// A complete call lives as long as its handler: watches last for hours, and long after the time
// limit of their message.
func TestINP04_SentCallsAreNotCut(t *testing.T) {
	for _, method := range []string{unaryMethod, watchMethod} {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, end := context.WithCancel(t.Context())
				wait := func(call context.Context) error {
					select {
					case <-ctx.Done():
						return status.Error(codes.OutOfRange, "as the test wants")
					case <-call.Done():
						return call.Err()
					}
				}
				cc := dial(t, serve(t, Limits{}, calls{watch: wait, unary: func(call context.Context, _ []byte) error { return wait(call) }}))
				stream, err := cc.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true}, method)
				if err != nil {
					t.Fatal(err)
				}
				if err := errors.Join(stream.SendMsg(new(wrapperspb.BytesValue)), stream.CloseSend()); err != nil {
					t.Fatal(err)
				}
				ended := make(chan error, 1)
				go func() { ended <- stream.RecvMsg(new(wrapperspb.BytesValue)) }()
				time.Sleep(5 * time.Hour)
				select {
				case err := <-ended:
					t.Fatalf("it ended with %v", err)
				default:
				}
				end()
				if err := <-ended; status.Code(err) != codes.OutOfRange {
					t.Errorf("it ended with %v", err)
				}
			})
		})
	}
}

// Messages pass up to the bound and not beyond it, and a longer one is refused before it
// is sent.
func TestINP01_MessagesAreBounded(t *testing.T) {
	const bound = 1 << 20
	var got atomic.Int64
	listener := serve(t, Limits{Message: bound}, calls{unary: func(_ context.Context, b []byte) error { got.Store(int64(len(b))); return nil }})
	cc := dial(t, listener)
	const around = 4 // of a BytesValue with so many bytes
	for size, want := range map[int]codes.Code{bound - 1: codes.OK, bound: codes.OK, bound + 1: codes.ResourceExhausted} {
		err := cc.Invoke(t.Context(), unaryMethod, wrapperspb.Bytes(make([]byte, size-around)), new(wrapperspb.BytesValue))
		if status.Code(err) != want || want == codes.OK && got.Load() != int64(size-around) {
			t.Errorf("%d bytes: %v, the handler had %d", size, err, got.Load())
		}
	}
	c := call(t, listener)
	id := c.begin(unaryMethod)
	c.data(id, false, message(bound+1, nil))
	c.want(id, code(codes.ResourceExhausted))
}

// No connection has more calls at once than its bound, also when they are reset as fast as
// they are made.
func TestINP08_CallsAreBounded(t *testing.T) {
	const most = 3
	var running, peak atomic.Int64
	leave := make(chan struct{})
	c := call(t, serve(t, Limits{Calls: most}, calls{unary: func(context.Context, []byte) error {
		now := running.Add(1)
		defer running.Add(-1)
		for old := peak.Load(); now > old && !peak.CompareAndSwap(old, now); old = peak.Load() {
		}
		<-leave // in any outcome of the call
		return nil
	}}))
	for range most {
		c.data(c.begin(unaryMethod), true, message(0, nil))
	}
	c.want(c.begin(unaryMethod), "reset: "+http2.ErrCodeRefusedStream.String())
	wrote := make(chan error, 1)
	go func() {
		for range 1000 {
			id, err := c.headers(unaryMethod, true)
			if err == nil {
				err = c.framer.WriteData(id, true, message(0, nil))
			}
			if err == nil {
				err = c.framer.WriteRSTStream(id, http2.ErrCodeCancel)
			}
			if err != nil {
				wrote <- err
				return
			}
		}
		wrote <- nil
	}()
	// The first calls are reset, too: their handlers run on and keep their places.
	close(leave)
	if err := <-wrote; err != nil {
		t.Fatal(err)
	}
	if got := peak.Load(); got > most {
		t.Errorf("%d handlers at once, want at most %d", got, most)
	}
}

// A call that is not admitted ends before its message is read, and nothing of it is kept.
func TestINP04_RefusedCallsAreNotRead(t *testing.T) {
	type key struct{}
	var seen atomic.Value
	c := call(t, serve(t, Limits{Admit: func(ctx context.Context, info *tap.Info) (context.Context, error) {
		if len(info.Header.Get("token")) == 0 {
			return ctx, status.Error(codes.Unauthenticated, "no token")
		}
		return context.WithValue(ctx, key{}, "admitted"), nil
	}}, calls{unary: func(ctx context.Context, _ []byte) error { seen.Store(ctx.Value(key{})); return nil }}))
	c.want(c.begin(unaryMethod), code(codes.Unauthenticated))
	// gRPC resets a call that the caller has not sent to its end.
	if got := <-c.ended; got.how != "reset: "+http2.ErrCodeNo.String() {
		t.Errorf("then it ended with %q", got.how)
	}
	if seen.Load() != nil {
		t.Error("the handler ran")
	}
	id, err := c.headers(unaryMethod, true, hpack.HeaderField{Name: "token", Value: "t"})
	if err != nil {
		t.Fatal(err)
	}
	c.data(id, true, message(0, nil))
	c.want(id, code(codes.OK))
	if seen.Load() != "admitted" {
		t.Error("the handler did not get the context of its admission")
	}
}

// The unread bytes of a caller do not grow with its speed. The call is one of many messages: gRPC
// runs the handler of a call with one message only when the caller has ended it.
func TestINP04_UnreadDataIsBounded(t *testing.T) {
	begun, leave := make(chan struct{}), make(chan struct{})
	c := call(t, serve(t, Limits{}, calls{watch: func(context.Context) error {
		close(begun)
		<-leave
		return nil
	}}))
	defer close(leave)
	id := c.begin(feedMethod)
	c.data(id, false, message(0, nil))
	<-begun
	for range window / (16 << 10) {
		if err := c.framer.WriteData(id, false, make([]byte, 16<<10)); err != nil {
			if errors.Is(err, io.ErrClosedPipe) {
				break
			}
			t.Fatal(err)
		}
	}
	c.want(id, "reset: "+http2.ErrCodeFlowControl.String())
}
