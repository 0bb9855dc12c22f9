package grpcconn

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"cadre.dev/overlay"
	"cadre.dev/overlay/grpcserver"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// roomy takes the messages of these tests.
var roomy = grpcserver.Limits{Message: 2 << 20}

const echoMethod = "/test.Echo/Echo"

// registerEcho serves one unary method that f answers.
func registerEcho(f func(context.Context, []byte) ([]byte, error)) func(*grpc.Server) {
	return func(s *grpc.Server) {
		s.RegisterService(&grpc.ServiceDesc{
			ServiceName: "test.Echo", HandlerType: (*any)(nil),
			Methods: []grpc.MethodDesc{{
				MethodName: "Echo",
				Handler: func(_ any, ctx context.Context, dec func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
					in := new(wrapperspb.BytesValue)
					if err := dec(in); err != nil {
						return nil, err
					}
					return intercept(ctx, in, &grpc.UnaryServerInfo{FullMethod: echoMethod}, func(ctx context.Context, _ any) (any, error) {
						out, err := f(ctx, in.Value)
						return wrapperspb.Bytes(out), err
					})
				},
			}},
		}, nil)
	}
}

func callEcho(ctx context.Context, cc *grpc.ClientConn, b []byte) ([]byte, error) {
	out := new(wrapperspb.BytesValue)
	err := cc.Invoke(ctx, echoMethod, wrapperspb.Bytes(b), out)
	return out.Value, err
}

// named is a connection with a far side that an overlay has authenticated.
type named struct {
	net.Conn
	remote net.Addr
}

func (n named) RemoteAddr() net.Addr { return n.remote }

func tcpPair(t *testing.T) (net.Conn, net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	a, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

func TestHandlersKnowThePeer(t *testing.T) {
	client, server := tcpPair(t)
	who := overlay.Addr{ID: overlay.ID{Cluster: "c", Group: "g", Slot: "s"}, BootID: "b"}
	served := make(chan error, 1)
	go func() {
		served <- Serve(t.Context(), named{server, who}, registerEcho(func(ctx context.Context, in []byte) ([]byte, error) {
			id, boot, ok := PeerFromContext(ctx)
			if !ok || id != who.ID || boot != who.BootID {
				t.Errorf("peer in handler: %v %q %v, want %v %q", id, boot, ok, who.ID, who.BootID)
			}
			return in, nil
		}), roomy)
	}()
	cc, err := Client(client)
	if err != nil {
		t.Fatal(err)
	}
	got, err := callEcho(t.Context(), cc, []byte("hello"))
	if err != nil || string(got) != "hello" {
		t.Fatalf("echo: %q, error %v", got, err)
	}
	cc.Close()
	if err := <-served; err != nil {
		t.Errorf("serve ended with %v, want nil after its connection closed", err)
	}
}

func TestNoPeerWithoutAnOverlay(t *testing.T) {
	if _, _, ok := PeerFromContext(t.Context()); ok {
		t.Error("a peer out of nowhere")
	}
}

func TestParallelBulk(t *testing.T) {
	client, server := tcpPair(t)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- Serve(ctx, server, registerEcho(func(_ context.Context, in []byte) ([]byte, error) { return in, nil }), roomy)
	}()
	cc, err := Client(client)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			msg := bytes.Repeat([]byte{byte(i)}, 1<<20)
			for range 4 {
				got, err := callEcho(ctx, cc, msg)
				if err != nil || !bytes.Equal(got, msg) {
					t.Errorf("echo %d: %d bytes, error %v", i, len(got), err)
				}
			}
		})
	}
	wg.Wait()
	cancel()
	if err := <-served; err != nil {
		t.Errorf("serve ended with %v, want nil after its context", err)
	}
	cc.Close()
}

func TestClientEndsWithItsConnection(t *testing.T) {
	client, server := tcpPair(t)
	served := make(chan error, 1)
	go func() {
		served <- Serve(t.Context(), server, registerEcho(func(_ context.Context, in []byte) ([]byte, error) { return in, nil }), roomy)
	}()
	cc, err := Client(client)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := callEcho(t.Context(), cc, nil); err != nil {
		t.Fatal(err)
	}
	server.Close()
	<-served
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for s := cc.GetState(); s != connectivity.Shutdown; s = cc.GetState() {
		if !cc.WaitForStateChange(ctx, s) {
			t.Fatalf("client stays %v after its connection died", s)
		}
	}
	_, err = callEcho(ctx, cc, nil)
	if c := status.Code(err); c != codes.Canceled && c != codes.Unavailable {
		t.Errorf("call on a dead client: %v", err)
	}
}

func TestClosingTheClientClosesTheConnection(t *testing.T) {
	client, server := tcpPair(t)
	cc, err := Client(client)
	if err != nil {
		t.Fatal(err)
	}
	cc.Close()
	_ = server.SetReadDeadline(time.Now().Add(10 * time.Second))
	for buf := make([]byte, 256); err == nil; {
		_, err = server.Read(buf)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the connection stayed open")
	}
}

// A handler's context ends with the connection, and Serve waits for it.
func TestServeWaitsForHandlers(t *testing.T) {
	client, server := tcpPair(t)
	entered, left := make(chan struct{}), make(chan struct{})
	served := make(chan error, 1)
	go func() {
		served <- Serve(t.Context(), server, registerEcho(func(ctx context.Context, in []byte) ([]byte, error) {
			close(entered)
			<-ctx.Done()
			close(left)
			return nil, ctx.Err()
		}), roomy)
	}()
	cc, err := Client(client)
	if err != nil {
		t.Fatal(err)
	}
	called := make(chan struct{})
	go func() { defer close(called); _, _ = callEcho(t.Context(), cc, nil) }()
	<-entered
	cc.Close()
	<-served
	select {
	case <-left:
	default:
		t.Error("serve returned before its handler")
	}
	<-called
}
