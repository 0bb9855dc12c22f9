package overlay

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"cadre.dev/overlay/internal/link"
	"cadre.dev/overlay/internal/peer"
	"cadre.dev/overlay/internal/session"
)

// direct makes a Session of class DirectTCP between two nodes, as a search would.
func direct(t *testing.T, dialer, other *testNode) {
	t.Helper()
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		conn, err := ln.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		if _, err := other.maker.Welcome(ctx, conn); err != nil {
			t.Error(err)
		}
	})
	conn, err := net.Dial("tcp4", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s, err := dialer.maker.DialOver(ctx, conn, session.Target{ID: other.id, Boot: other.bootID()})
	if err != nil {
		t.Fatal(err)
	}
	if !dialer.linkTo(other).Connected(s) {
		t.Fatal("the link is over")
	}
}

func (n *testNode) linkTo(p *testNode) *peer.Peer {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.peers[p.id]
}

// awaitPath waits until n uses a kind of path to p.
func (n *testNode) awaitPath(t *testing.T, p *testNode, kind PathKind) SessionInfo {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; {
		infos := n.Sessions()
		at := slices.IndexFunc(infos, func(i SessionInfo) bool { return i.Peer == p.id })
		if at >= 0 && infos[at].Path == kind {
			return infos[at]
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not use %s to %s: %+v", n.id, kind, p.id, infos)
		}
		waitTick()
	}
}

func waitTick() { <-time.After(5 * time.Millisecond) }

// A better Session takes the control connections over, and the gateway's Session stays as
// the standby. When the better Session dies, control returns to the standby at once.
func TestControlFollowsTheSessionInUse(t *testing.T) {
	w := newWorld(t)
	atA, atC := make(chan controlled, 8), make(chan controlled, 8)
	a := w.node("db", "a", 1, withControl(atA))
	c := w.node(CoordinatorGroup, "coordinator-0", 2, func(cfg *Config) {
		cfg.OnControl = func(ctx context.Context, p Peer, conns ControlConns) {
			atC <- controlled{ctx.Done(), p, conns}
			// As gRPC does, it reads: that is how it learns that control has moved.
			_, _ = io.Copy(io.Discard, conns.First)
			<-ctx.Done()
			_ = conns.First.Close()
			_ = conns.Second.Close()
		}
	})
	connect(a, c, nil, nil)
	firstA, firstC := <-atA, <-atC

	direct(t, a, c)
	secondA, secondC := <-atA, <-atC
	<-firstA.done
	// The users of the old connections close them when their context ends.
	_ = firstA.conns.First.Close()
	_ = firstA.conns.Second.Close()
	<-firstC.done
	if got := a.awaitPath(t, c, PathDirectTCP); len(got.Standby) != 1 || got.Standby[0] != PathGateway {
		t.Errorf("standbys %v, want the gateway's", got.Standby)
	}
	if got := c.awaitPath(t, a, PathDirectTCP); len(got.Standby) != 1 {
		t.Errorf("standbys %v, want the gateway's", got.Standby)
	}
	if _, err := secondA.conns.First.Write([]byte("x")); err != nil {
		t.Errorf("control on the better session: %v", err)
	}

	closeClass(a.linkTo(c), link.DirectTCP)
	<-secondA.done
	<-secondC.done
	<-atA
	<-atC
	if got := a.awaitPath(t, c, PathGateway); got.PathReason != "the direct-tcp path died" || got.PathChanges != 3 {
		t.Errorf("after the loss: %+v", got)
	}
	changes := a.PathChanges(c.id)
	if len(changes) != 3 || changes[1].From != PathGateway || changes[1].To != PathDirectTCP {
		t.Errorf("path changes %+v", changes)
	}
}

// If the cause of a Session's end has silently ended its standby too, a connection of an
// app does not wait on the standby for its dead-man timer.
func TestAStandbyThatTakesOverIsProved(t *testing.T) {
	for _, first := range []string{"suspicion", "another session"} {
		t.Run(first+" first", func(t *testing.T) { provesStandby(t, first) })
	}
}

func provesStandby(t *testing.T, first string) {
	t.Helper()
	w := newWorld(t)
	a, b := w.node("db", "a", 1), w.node("db", "b", 2)
	ln, port := b.listen(t)
	serveEach(t, ln, echo)
	connect(a, b, tcpPort(port), nil)
	a.session(t, b)
	direct(t, a, b)
	a.awaitPath(t, b, PathDirectTCP)

	w.gw.Pause()
	l := a.linkTo(b)
	closeClass(l, link.DirectTCP)
	a.awaitPath(t, b, PathGateway)
	app := a.dial(t, b, port)
	if _, err := app.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the app's connection on the standby", func() bool {
		s, _, err := l.Used()
		return err == nil && l.Carries(s) == 1
	})
	if first == "suspicion" {
		eventually(t, "the standby under suspicion", func() bool {
			state := l.View().State
			used, _ := state.InUse()
			return state.Suspect(used)
		})
	}
	direct(t, a, b)
	if _, err := app.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the app's connection: %v, want a reset", err)
	}
	if sessions := len(l.View().Sessions); sessions != 2 {
		t.Errorf("%d sessions: the dead-man timer was faster, so this shows nothing", sessions)
	}
	again := a.dial(t, b, port)
	if _, err := again.Write([]byte("y")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(again, make([]byte, 1)); err != nil {
		t.Errorf("the next connection: %v", err)
	}
}

// closeClass ends the Sessions of a class, as the death of their path does.
func closeClass(l *peer.Peer, c link.Class) {
	for _, s := range l.View().Sessions {
		if s.Class == c {
			go s.Close(errors.New("the path died"))
		}
	}
}
