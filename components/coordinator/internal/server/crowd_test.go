package server

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	apiv1 "cadre.dev/proto/cadre/api/v1"
)

const (
	crowdSize   = 128
	crowdHeader = 12 << 20
)

// listen runs the server as a coordinator does and returns its address.
func (a *api) listen(t testing.TB) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, of, of, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	a.caPEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	a.cfg.Certificate = func() (tls.Certificate, error) {
		return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- a.Run(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ran; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

var crowdTLS = &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}

// operator makes a call on its own connection, with a limit of ten seconds, and returns the time
// from the first packet on.
func operator(t testing.TB, address string) time.Duration {
	t.Helper()
	began := time.Now()
	cc := dialAPI(t, address)
	defer func() { _ = cc.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err := apiv1.NewClusterServiceClient(cc).ListGroups(metadata.AppendToOutgoingContext(ctx, tokenHeader, operatorToken), &apiv1.ListGroupsRequest{})
	if err != nil {
		t.Fatalf("after %v: %v", time.Since(began), err)
	}
	return time.Since(began)
}

func dialAPI(t testing.TB, address string) *grpc.ClientConn {
	t.Helper()
	cc, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(credentials.NewTLS(crowdTLS)), grpc.WithDisableServiceConfig())
	if err != nil {
		t.Fatal(err)
	}
	return cc
}

// crowd are unauthenticated callers with half-sent calls.
type crowd struct {
	stop  context.CancelFunc
	gone  sync.WaitGroup
	begun chan struct{} // one value for each caller that has sent all it could
}

// gather sends half a call over each of crowdSize connections: headers up to crowdHeader or as many
// as the server reads, then nothing. A rejected connection is opened again at once and stays open
// with a shorter header.
func gather(t testing.TB, address string) *crowd {
	ctx, stop := context.WithCancel(t.Context())
	c := &crowd{stop: stop, begun: make(chan struct{}, crowdSize)}
	for n := range crowdSize {
		c.gone.Go(func() {
			begun := sync.OnceFunc(func() { c.begun <- struct{}{} })
			for size := crowdHeader; ctx.Err() == nil; size = 8 << 10 {
				halfSend(ctx, address, size, n%2 == 0, begun)
			}
		})
	}
	t.Cleanup(c.leave)
	for range crowdSize {
		<-c.begun
	}
	return c
}

func (c *crowd) leave() {
	c.stop()
	c.gone.Wait()
}

// halfSend begins a call and returns when the connection is closed. all: the headers are complete,
// and the message is missing.
func halfSend(ctx context.Context, address string, size int, all bool, held func()) {
	conn, err := (&tls.Dialer{Config: crowdTLS}).DialContext(ctx, "tcp", address)
	if err != nil {
		return
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	framer := http2.NewFramer(conn, nil)
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, f := range []hpack.HeaderField{
		{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "https"}, {Name: ":path", Value: apiv1.ClusterService_ApplyGroup_FullMethodName},
		{Name: "content-type", Value: "application/grpc"}, {Name: tokenHeader, Value: "11111111-2222-3333-4444-555555555555"},
	} {
		_ = encoder.WriteField(f) // into memory
	}
	if _, err = io.WriteString(conn, http2.ClientPreface); err == nil {
		err = framer.WriteSettings()
	}
	if err == nil {
		err = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: all && size < crowdHeader})
	}
	if all && size < crowdHeader {
		size = 0
	}
	block.Reset()
	_ = encoder.WriteField(hpack.HeaderField{Name: "x-filler", Value: string(bytes.Repeat([]byte{'v'}, 4000)), Sensitive: true})
	for sent := block.Len(); sent < size && err == nil; sent += block.Len() {
		err = framer.WriteContinuation(1, false, block.Bytes())
	}
	if err != nil && size == crowdHeader {
		return // gather opens it again
	}
	held()
	_, _ = io.Copy(io.Discard, conn)
}

// memory returns the bytes that this process holds after a collection.
func memory() int64 {
	runtime.GC()
	runtime.GC() // frees the memory that finalizers held
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// The requirement: 128 half-sent calls of 12 MiB of headers keep no operator out and cost little.
// Both sides of the callers' connections are in this process.
func TestINP01_INP04_INP08_HalfSentCallsKeepNoOperatorOut(t *testing.T) {
	a := newAPI(t)
	address := a.listen(t)
	operator(t, address) // creates the token
	before := memory()
	gather(t, address)
	took := []time.Duration{operator(t, address)}
	cost := memory() - before
	_, unauthenticated := a.Connections()
	took = append(took, operator(t, address))
	t.Logf("an operator's first call took %v among %d unauthenticated callers; %.1f MiB for both sides", took, unauthenticated, float64(cost)/(1<<20))
	if unauthenticated < crowdSize/2 {
		t.Errorf("%d unauthenticated callers, want more", unauthenticated)
	}
	if cost >= 32<<20 {
		t.Errorf("%d bytes are held for them, want less than 32 MiB", cost)
	}
}

// An operator's watch and its large spec pass during the crowd, and the same connection continues
// to work.
func TestINP04_OperatorsWorkOnDuringACrowd(t *testing.T) {
	a := newAPI(t)
	address := a.listen(t)
	cc := dialAPI(t, address)
	defer func() { _ = cc.Close() }()
	client := apiv1.NewClusterServiceClient(cc)
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(t.Context(), tokenHeader, operatorToken), time.Minute)
	defer cancel()
	if _, err := client.ApplyGroup(ctx, &apiv1.ApplyGroupRequest{Group: "pg", SpecJson: specJSON(t)}); err != nil {
		t.Fatal(err)
	}
	watch, err := client.WatchGroup(ctx, &apiv1.WatchGroupRequest{Group: "pg"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := watch.Recv(); err != nil {
		t.Fatal(err)
	}
	gather(t, address)
	// The largest accepted message reaches the spec's decoder, which rejects it.
	_, err = client.ApplyGroup(ctx, &apiv1.ApplyGroupRequest{Group: "pg", SpecJson: bytes.Repeat([]byte{' '}, maxMessage-100)})
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("a large spec: %v", err)
	}
	changed := spec(t)
	changed.Replicas = 5
	raw, err := json.Marshal(changed)
	if err != nil {
		t.Fatal(err)
	}
	next := watching(watch)
	if _, err := client.ApplyGroup(ctx, &apiv1.ApplyGroupRequest{Group: "pg", SpecJson: raw}); err != nil {
		t.Fatal(err)
	}
	if err := <-next; err != nil {
		t.Errorf("the watch: %v", err)
	}
	if status.Code(askProof(ctx, client)) != codes.InvalidArgument {
		t.Error("a call that anybody may make does not get through")
	}
}

func askProof(ctx context.Context, client apiv1.ClusterServiceClient) error {
	_, err := client.AttestCoordinator(ctx, &apiv1.AttestCoordinatorRequest{Nonce: []byte("short")})
	return err
}

func watching(w grpc.ServerStreamingClient[apiv1.WatchGroupResponse]) <-chan error {
	out := make(chan error, 1)
	go func() {
		_, err := w.Recv()
		out <- err
	}()
	return out
}

// BenchmarkOperatorDuringACrowd measures an operator's first call on its own connection while 128
// unauthenticated callers hold half-sent calls, and the memory of those callers.
func BenchmarkOperatorDuringACrowd(b *testing.B) {
	a := newAPI(b)
	address := a.listen(b)
	operator(b, address)
	before := memory()
	gather(b, address)
	cost := memory() - before
	var took []time.Duration
	for b.Loop() {
		took = append(took, operator(b, address))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100])/1e6, "p99-ms")
	b.ReportMetric(float64(took[len(took)-1])/1e6, "worst-ms")
	b.ReportMetric(float64(cost)/(1<<20), "MiB")
}
