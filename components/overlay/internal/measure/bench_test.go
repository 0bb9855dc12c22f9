package measure

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/apernet/quic-go/congestion"

	"cadre.dev/overlay/internal/bbr"
	"cadre.dev/overlay/internal/carrier"
	"cadre.dev/overlay/internal/counters"
	"cadre.dev/overlay/internal/datagram"
	"cadre.dev/overlay/internal/frame"
	"cadre.dev/overlay/internal/identity"
	"cadre.dev/overlay/internal/identity/identitytest"
)

// datagramSessions gives both ends of a Session over UDP, without a node.
func datagramSessions(t *testing.T) (near, far carrier.Session) {
	t.Helper()
	const cluster = "test.cadre"
	ca := identitytest.NewAuthority(t, cluster)
	cert := ca.Issue(t, ca.ID("db", "b"))
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
	if err := ends[1].Listen(identity.OverlayServer(cert, ca.Pool, cluster)); err != nil {
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
	client := ca.Issue(t, ca.ID("db", "a"))
	c, err := ends[0].Dial(ctx, at, identity.OverlayClient(client, ca.Pool, "", ca.ID("db", "b"), ""))
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

func newBBR() congestion.CongestionControlEx { return bbr.New(bbr.InitialDatagramSize) }

func TestBenchOverDatagrams(t *testing.T) {
	near, far := datagramSessions(t)
	part := &Part{Place: NewPlace(), Counters: &counters.Counters{}}
	for _, direction := range []frame.BenchDirection{frame.BenchSend, frame.BenchReceive} {
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
			part.Serve(st, func() bool { return true }, slog.New(slog.DiscardHandler))
		})
		req := frame.BenchRequest{Direction: direction, Time: 400 * time.Millisecond, Bytes: MaxBenchBytes}
		count, loaded, err := begin(t.Context(), near, req)
		serving.Wait()
		if err != nil || count.Bytes == 0 || count.Took < req.Time {
			t.Errorf("direction %d: %+v, error %v", direction, count, err)
		}
		t.Logf("direction %d: %.0f Mbps, %v loaded", direction, BenchResult{Bytes: uint64(count.Bytes), Took: count.Took}.Mbps(), loaded)
	}
}
