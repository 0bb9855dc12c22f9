// What joins a Link and the finder of its paths (package search): the Link is the
// finder's owner, makes Sessions of what it finds, and tells it what the machine wants.

package overlay

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"slices"
	"time"

	"cadre.dev/overlay/internal/carrier"
	"cadre.dev/overlay/internal/identity"
	"cadre.dev/overlay/internal/link"
	"cadre.dev/overlay/internal/punch"
	"cadre.dev/overlay/internal/search"
	"cadre.dev/overlay/internal/signal"
	"cadre.dev/overlay/internal/underlay"
	pathstate "cadre.dev/overlay/internal/underlay/paths"
)

// openPaths makes a Link known to the shared socket.
func (l *peerLink) openPaths() {
	// The Peer remembers the epochs of our Boot longer than we do, who may leave its
	// map and come back, or start again with the same key. Clocks go on, mostly.
	l.epochs = epochBase(time.Now(), l.node.epoch.Load())
	if l.node.paths == nil {
		return
	}
	l.finder = search.New(search.Config{Field: &l.node.paths.field, Owner: (*owner)(l), Peer: l.id, Log: l.log})
	l.finder.Path().Follow(l.pathEvent)
}

// epochBase is what the epochs of a Link begin after: the clock, or highest, the highest
// of any Link that is gone, when the clock was set back.
func epochBase(now time.Time, highest uint64) uint64 {
	return max(uint64(max(now.UnixMicro(), 0)), highest)
}

// facts are the node's about the Peer, and what is this Link's own.
func (l *peerLink) facts(p Peer) link.Facts {
	f := l.node.facts(p)
	f.Epoch = l.epochs
	return f
}

// forgetPathsLocked lets go of the paths to a Boot that is not the Peer's any more, once
// its Sessions have said farewell over them. Its machine may still run and answer
// probes: kept paths would lead the next Boot's packets to it (OVL-15).
func (l *peerLink) forgetPathsLocked() {
	if l.finder == nil {
		return
	}
	l.class = link.NoClass
	forget := l.finder.Forget()
	sessions := slices.Collect(maps.Values(l.sessions))
	l.wg.Go(func() {
		awaitFarewells(sessions)
		forget()
	})
}

// closePaths lets go of the socket once the Sessions have said farewell over it: the
// Peer would wait for its dead-man timer else.
func (l *peerLink) closePaths() {
	if l.finder == nil {
		return
	}
	l.mu.Lock()
	release := l.finder.Close()
	sessions := slices.Collect(maps.Values(l.sessions))
	l.mu.Unlock()
	l.node.wg.Go(func() {
		awaitFarewells(sessions)
		release()
	})
}

// awaitFarewells waits for the end of the Sessions over UDP.
func awaitFarewells(sessions []live) {
	for _, s := range sessions {
		if s.path.carrier == carrierQUIC {
			s.Wait()
		}
	}
}

// pathEvent tells the machine what happens to the datagram paths.
func (l *peerLink) pathEvent(ev underlay.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch ev.Kind {
	case underlay.PathUp, underlay.PathChanged:
		l.class = l.node.paths.field.Class(ev.Path)
		for number, s := range l.sessions {
			if s.path.carrier == carrierQUIC {
				// One under suspicion stays so until it answers: it may have been found by the
				// successor of the process that the Session was made with.
				l.stepLocked(link.Moved{Session: number, Class: l.class})
			}
		}
		l.finder.Came()
		l.log.Debug("datagram path", "event", string(ev.Kind), "remote", ev.Path.Remote, "reason", ev.Reason)
	case underlay.PathQuiet, underlay.PathsGone:
		l.log.Info("datagram path is quiet", "event", string(ev.Kind), "remote", ev.Path.Remote, "reason", ev.Reason)
		if ev.Kind == underlay.PathsGone {
			// The Session waits for a path, with the connections on it; new ones need not.
			for _, s := range l.sessions {
				if s.path.carrier == carrierQUIC {
					l.node.launch(&l.wg, func(ctx context.Context) { l.suspect(ctx, s, "session has no path") })
				}
			}
		}
		l.stepLocked(link.Quiet{})
	}
}

// datagramClass is what a Session over UDP is worth now.
func (l *peerLink) datagramClass() link.Class {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.class == link.NoClass {
		return link.DirectUDP
	}
	return l.class
}

// candidates describes the validated datagram paths.
func (l *peerLink) candidates() []Candidate {
	if l.finder == nil {
		return nil
	}
	var out []Candidate
	for _, p := range l.finder.Path().Paths() {
		if p.State != pathstate.Up {
			continue
		}
		out = append(out, Candidate{
			Kind: pathKind(l.node.paths.field.Class(p)), Remote: p.Remote.String(), RTT: p.RTT, Loss: p.Loss, InUse: p.InUse,
		})
	}
	return out
}

// begun is how many searches there have been.
func (l *peerLink) begun() uint64 {
	if l.finder == nil {
		return 0
	}
	return l.finder.Begun()
}

// doFindLocked carries out what concerns the search for paths.
func (l *peerLink) doFindLocked(e link.Effect) {
	if l.finder == nil {
		return // the machine was told that this node finds none
	}
	switch e := e.(type) {
	case link.StopFind:
		l.finder.Stop()
	case link.ArmFind:
		l.finder.Arm(e.After, func() { l.step(link.FindTimer{Number: e.Number}) })
	case link.Nudge:
		l.finder.Nudge(l.peer.BootID, l.node.controls(l.peer))
	case link.Redial:
		l.finder.Redial(e.Boot)
	case link.Find:
		l.finder.Want(e, l.node.controls(l.peer))
	}
}

// signaled takes a message from the Peer's mailbox. Its sender is authenticated and
// admitted; a message of a search that is not the running one is of the past.
func (l *peerLink) signaled(who identity.Verified, m signal.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.finder.Hear()
	switch m.Type {
	case signal.Nudge:
		l.stepLocked(link.Nudged{Boot: who.BootID, Unsaid: l.finder.Unsaid()})
		return
	case signal.Offer:
		l.stepLocked(link.Offered{Epoch: m.Epoch, Boot: who.BootID})
	case signal.Answer, signal.Candidates, signal.Bye:
	}
	if running, epoch := l.state.Finding(); running && epoch == m.Epoch {
		l.finder.Take(m)
	}
}

// hoped tells the machine that a rendezvous is back, unless the search that runs waits
// for just that.
func (l *peerLink) hoped() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if running, _ := l.state.Finding(); !running || !l.finder.Unsaid() {
		l.stepLocked(link.Hoped{Jitter: jitter()})
	}
}

// owner is a Link as its finder sees it.
type owner peerLink

var _ search.Owner = (*owner)(nil)

func (o *owner) link() *peerLink { return (*peerLink)(o) }

func (o *owner) Has(c link.Class) bool {
	l := o.link()
	l.mu.Lock()
	defer l.mu.Unlock()
	for number := range l.sessions {
		if l.state.Class(number) == c {
			return true
		}
	}
	return false
}

func (o *owner) HasDatagrams() bool {
	l := o.link()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.sessions {
		if s.path.carrier == carrierQUIC {
			return true
		}
	}
	return false
}

func (o *owner) Best() link.Class {
	l := o.link()
	l.mu.Lock()
	defer l.mu.Unlock()
	_, best := l.state.InUse()
	return best
}

func (o *owner) Waiting() bool { return o.forward.Waiting() > 0 }

func (o *owner) Launch(f func(context.Context)) context.CancelFunc {
	return o.node.launch(&o.link().wg, f)
}

func (o *owner) Ended(epoch uint64, unlucky bool) {
	o.link().step(link.FindEnded{Epoch: epoch, Jitter: jitter(), Unlucky: unlucky})
}

func (o *owner) DialDatagrams(ctx context.Context, boot string) error {
	session, err := o.node.dialDatagrams(ctx, o.link(), boot)
	if err != nil {
		return err
	}
	o.link().adopt(session, 0)
	return nil
}

func (o *owner) DialDirect(ctx context.Context, conn *punch.Conn, boot string) error {
	creds, err := o.node.credentials(ctx)
	if err != nil {
		conn.Close()
		return err
	}
	session, err := o.node.client(ctx, conn, creds, "", o.id, boot, link.DirectTCP)
	if err != nil {
		return err
	}
	if !o.link().adopt(session, 0) {
		return errStopped
	}
	o.link().checkRTT(session, conn)
	return nil
}

// Welcome is welcome for a connection that this side helped to make.
func (o *owner) Welcome(ctx context.Context, conn *punch.Conn) error {
	n := o.node
	ctx, cancel := context.WithTimeoutCause(ctx, n.limits.handshakeTime, errSlowHandshake)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	tc := tls.Server(carrier.Metered(conn), n.serverConfig())
	if err := tc.HandshakeContext(ctx); err != nil {
		stop()
		conn.Close()
		n.counts.failedHandshakes.Add(1)
		return fmt.Errorf("handshake: %w", err)
	}
	note := pathNote{carrier: carrierTLS, local: conn.LocalAddr().String(), remote: conn.RemoteAddr().String()}
	session, err := n.join(ctx, tc, stop, link.DirectTCP, note)
	if err != nil {
		conn.Close()
		return err
	}
	o.link().checkRTT(session, conn)
	return nil
}

// checkRTT corrects what the kernel believes of a crossed handshake.
func (l *peerLink) checkRTT(s live, conn *punch.Conn) {
	l.node.launch(&l.wg, func(ctx context.Context) {
		if punch.CheckRTT(conn, func() (time.Duration, error) { return s.Ping(ctx) }) {
			l.log.Debug("crossed handshake: the connection begins with another congestion control", "remote", conn.Remote())
		}
	})
}
