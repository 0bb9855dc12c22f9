package callers

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"cadre.dev/overlay/grpcserver"
	"cadre.dev/raced/synctest"
)

const (
	tokenName   = "token"
	doMethod    = "/test.API/Do"
	watchMethod = "/test.API/Watch"
	openMethod  = "/test.API/Open"
)

var (
	errNone = errors.New("there is no such token")
	errAway = errors.New("the store is away")
)

// certificate is made once: the tests do not check it.
var certificate = sync.OnceValue(func() tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(1)}, &x509.Certificate{SerialNumber: big.NewInt(1)}, key.Public(), key)
	if err != nil {
		panic(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
})

// world is an API behind Callers.
type world struct {
	t       testing.TB
	callers *Callers
	conns   chan net.Conn
	closed  chan struct{}

	mu    sync.Mutex
	good  map[string]bool                               // guarded by mu
	check func(ctx context.Context, token string) error // guarded by mu; nil: good decides
	asked []string                                      // guarded by mu; tokens, in order
	do    func(context.Context) error                   // guarded by mu; the work of a call
}

func newWorld(t testing.TB, change func(*Callers)) *world {
	t.Helper()
	w := &world{t: t, conns: make(chan net.Conn), closed: make(chan struct{}), good: map[string]bool{"ops": true, "more": true}}
	w.callers = New(Config{
		Token: tokenName, Check: w.ask, Refused: func(err error) bool { return errors.Is(err, errNone) },
		Open: func(method string) bool { return method == openMethod },
	})
	if change != nil {
		change(w.callers)
	}
	server := grpcserver.New(grpcserver.Limits{Message: 512 << 10, Calls: 32, Admit: w.callers.Admit},
		grpc.WaitForHandlers(true),
		grpc.Creds(Credentials(&tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{certificate()}}, func(c net.Conn) { _ = c.Close() })),
		grpc.ChainUnaryInterceptor(w.callers.Unary), grpc.ChainStreamInterceptor(w.callers.Stream))
	unary := func(method string) grpc.MethodDesc {
		return grpc.MethodDesc{MethodName: method, Handler: func(_ any, ctx context.Context, dec func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
			in := new(wrapperspb.BytesValue)
			if err := dec(in); err != nil {
				return nil, err
			}
			return intercept(ctx, in, &grpc.UnaryServerInfo{}, func(ctx context.Context, _ any) (any, error) {
				return wrapperspb.UInt64(uint64(len(in.GetValue()))), w.doing(ctx)
			})
		}}
	}
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "test.API", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{unary("Do"), unary("Open")},
		Streams: []grpc.StreamDesc{{StreamName: "Watch", ServerStreams: true, Handler: func(_ any, s grpc.ServerStream) error {
			if err := s.RecvMsg(new(wrapperspb.BytesValue)); err != nil {
				return err
			}
			if err := s.SendMsg(wrapperspb.UInt64(1)); err != nil {
				return err
			}
			return w.doing(s.Context())
		}}},
	}, nil)
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(w.callers.Listener(w)) }()
	t.Cleanup(func() { w.callers.Close(); server.Stop(); <-served })
	return w
}

func (w *world) ask(ctx context.Context, token string) error {
	w.mu.Lock()
	w.asked = append(w.asked, token)
	check, good := w.check, w.good[token]
	w.mu.Unlock()
	switch {
	case check != nil:
		return check(ctx, token)
	case good:
		return nil
	}
	return errNone
}

func (w *world) tokensAsked() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.asked)
}

func (w *world) set(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

func (w *world) doing(ctx context.Context) error {
	w.mu.Lock()
	do := w.do
	w.mu.Unlock()
	if do == nil {
		return nil
	}
	return do(ctx)
}

// Accept implements net.Listener.
func (w *world) Accept() (net.Conn, error) {
	select {
	case conn := <-w.conns:
		return conn, nil
	case <-w.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (w *world) Close() error   { close(w.closed); return nil }
func (w *world) Addr() net.Addr { return &net.TCPAddr{} }

// from is a connection with a given remote address.
type from struct {
	net.Conn
	at net.Addr
}

func (f from) RemoteAddr() net.Addr { return f.at }

// connect opens a connection from an address.
func (w *world) connect(address string) net.Conn {
	near, far := net.Pipe()
	w.t.Cleanup(func() { _ = near.Close() })
	w.conns <- from{far, &net.TCPAddr{IP: net.ParseIP(address), Port: 4711}}
	return near
}

var clientTLS = &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}

// shake is connect with a handshake.
func (w *world) shake(address string) *tls.Conn {
	w.t.Helper()
	conn := tls.Client(w.connect(address), clientTLS)
	if err := conn.HandshakeContext(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	return conn
}

// client makes a client with connections from an address.
func (w *world) client(address string) *grpc.ClientConn {
	w.t.Helper()
	cc, err := grpc.NewClient("passthrough:///api", grpc.WithTransportCredentials(credentials.NewTLS(clientTLS)), grpc.WithDisableServiceConfig(),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return w.connect(address), nil }))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = cc.Close() })
	return cc
}

// call calls with a token, or without one if it is empty, and with a message of size bytes.
func (w *world) call(cc *grpc.ClientConn, method, token string, size int) error {
	ctx := w.t.Context()
	if token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, tokenName, token)
	}
	out := new(wrapperspb.UInt64Value)
	err := cc.Invoke(ctx, method, wrapperspb.Bytes(make([]byte, size)), out)
	if err == nil && out.GetValue() != uint64(size) {
		w.t.Errorf("%d bytes arrived of %d", out.GetValue(), size)
	}
	return err
}

// watch begins a watch, and returns a channel with its end.
func (w *world) watch(cc *grpc.ClientConn, token string) <-chan error {
	w.t.Helper()
	stream, err := cc.NewStream(metadata.AppendToOutgoingContext(w.t.Context(), tokenName, token), &grpc.StreamDesc{ServerStreams: true}, watchMethod)
	if err == nil {
		err = errors.Join(stream.SendMsg(new(wrapperspb.BytesValue)), stream.CloseSend(), stream.RecvMsg(new(wrapperspb.UInt64Value)))
	}
	if err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait() // until its handler runs
	ended := make(chan error, 1)
	go func() { ended <- stream.RecvMsg(new(wrapperspb.UInt64Value)) }()
	return ended
}

// count returns the number of connections of a class.
func (w *world) count(of class) int { return w.callers.count(of) }

// say writes in the background: the far side may write first, and a pipe has no buffer.
func say(conn net.Conn, b ...byte) net.Conn {
	go func() { _, _ = conn.Write(b) }()
	return conn
}

// ended waits until the far side closes a connection, and returns the time until then.
func ended(conn net.Conn) time.Duration {
	began := time.Now()
	for b := make([]byte, 4096); ; {
		if _, err := conn.Read(b); err != nil {
			return time.Since(began)
		}
	}
}
