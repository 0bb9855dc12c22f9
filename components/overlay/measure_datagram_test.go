package overlay

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"cadre.dev/overlay/internal/carrier"
	"cadre.dev/overlay/internal/datagram"
	"cadre.dev/overlay/internal/frame"
	"cadre.dev/overlay/internal/identity"
)

// datagramSessions gives both ends of a Session over UDP, without a node.
func datagramSessions(t *testing.T) (near, far carrier.Session) {
	t.Helper()
	ca := newAuthority(t)
	id := func(slot string) ID { return ID{Cluster: testCluster, Group: "db", Slot: slot} }
	cert := ca.issue(t, []string{id("b").String()})
	var ends [2]*datagram.Transport
	var at net.Addr
	for i := range ends {
		conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		at = conn.LocalAddr()
		ends[i] = datagram.New(datagram.Config{Conn: conn, Congestion: newBBR})
		t.Cleanup(func() {
			if err := ends[i].Close(); err != nil {
				t.Error(err)
			}
			conn.Close()
		})
	}
	if err := ends[1].Listen(identity.OverlayServer(cert, ca.Pool, testCluster)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	accepted := make(chan carrier.Session, 1)
	go func() {
		defer close(accepted)
		c, err := ends[1].Accept(ctx)
		if err != nil {
			return
		}
		if _, err := c.First().Write(frame.AppendGreeting(nil, frame.Accepted)); err != nil {
			return
		}
		if s, err := c.Server(ctx, nil); err == nil {
			accepted <- s
		}
	}()
	client := ca.issue(t, []string{id("a").String()})
	c, err := ends[0].Dial(ctx, at, identity.OverlayClient(client, ca.Pool, "", id("b"), ""))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := frame.ReadGreeting(c.First()); err != nil {
		t.Fatal(err)
	}
	if near, err = c.Client(ctx, nil); err != nil {
		t.Fatal(err)
	}
	if far = <-accepted; far == nil {
		t.Fatal("no session at the acceptor")
	}
	t.Cleanup(func() {
		for _, s := range []carrier.Session{near, far} {
			s.Close(errors.New("test is over"))
			s.Wait()
		}
	})
	return near, far
}

func TestBenchOverDatagrams(t *testing.T) {
	near, far := datagramSessions(t)
	server := &peerLink{
		node: &Node{benching: make(chan struct{}, 1)}, peer: Peer{Coordinator: true}, log: slog.New(slog.DiscardHandler),
	}
	for _, direction := range []frame.BenchDirection{frame.BenchSend, frame.BenchReceive} {
		st, err := near.OpenStream()
		if err != nil {
			t.Fatal(err)
		}
		var serving sync.WaitGroup
		serving.Go(func() {
			st, err := far.AcceptStream()
			if err != nil {
				t.Error(err)
				return
			}
			if h, err := frame.ReadHeader(st); err != nil || h.Kind != frame.KindBench {
				t.Errorf("header %v, error %v", h, err)
			}
			server.serveBench(st)
		})
		reset := sync.OnceFunc(st.Reset)
		req := frame.BenchRequest{Direction: direction, Time: 400 * time.Millisecond, Bytes: MaxBenchBytes}
		var res BenchResult
		count, err := runBench(t.Context(), near, st, reset, req, &res)
		reset()
		serving.Wait()
		if err != nil || count.Bytes == 0 || count.Took < req.Time {
			t.Errorf("direction %d: %+v, error %v", direction, count, err)
		}
		t.Logf("direction %d: %.0f Mbps, %v loaded", direction, BenchResult{Bytes: uint64(count.Bytes), Took: count.Took}.Mbps(), res.LoadedRTT)
	}
}
