package overlaynode

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"cadre.dev/overlay/internal/frame"
	"cadre.dev/overlay/internal/identity"
	"cadre.dev/overlay/internal/mailbox"
	"cadre.dev/overlay/internal/punch"
	"cadre.dev/overlay/internal/signal"
)

// hostile is a member that is admitted, and speaks the protocols by hand.
type hostile struct {
	self, victim identity.ID
	own, shown   tls.Certificate
	roots        *x509.CertPool
	box          *mailbox.Client
	controlling  bool
	debug        bool
}

func runHostile(path string) error {
	var c Hostile
	if err := read(path, &c); err != nil {
		return err
	}
	ctx, lines := untilStdinEnds()
	h, err := newHostile(c)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { _ = h.box.Run(ctx) })
	return serveRequests(ctx, &wg, lines, func(r Request) Response {
		res, err := h.answer(ctx, r)
		if err != nil {
			res.Error = err.Error()
		}
		return res
	})
}

func newHostile(c Hostile) (*hostile, error) {
	h := &hostile{controlling: c.Controlling, debug: c.Debug, roots: x509.NewCertPool()}
	h.roots.AppendCertsFromPEM(c.CA)
	var errs [4]error
	h.self, errs[0] = identity.ParseID(c.Self)
	h.victim, errs[1] = identity.ParseID(c.Victim)
	h.own, errs[2] = tls.X509KeyPair(c.Cert, c.Key)
	h.shown = h.own
	if c.ShownCert != nil {
		h.shown, errs[3] = tls.X509KeyPair(c.ShownCert, c.ShownKey)
	}
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	var servers []mailbox.Server
	for _, r := range c.Rendezvous {
		servers = append(servers, mailbox.Server{URL: r.URL, CA: r.CA})
	}
	var err error
	h.box, err = mailbox.New(mailbox.Config{Servers: servers, Log: logger(c.Debug), Identity: func() (mailbox.Identity, bool) {
		return mailbox.Identity{ID: h.self, Certificate: h.own, Roots: h.roots}, true
	}})
	return h, err
}

func (h *hostile) answer(ctx context.Context, r Request) (Response, error) {
	ctx, cancel := context.WithTimeout(ctx, max(r.For, 30*time.Second))
	defer cancel()
	switch r.Verb { //nolint:exhaustive // the others are an honest node's
	case Scan:
		return h.scan(ctx, r.Addr)
	case Impostor:
		return h.impostor(ctx)
	case Inject:
		return Response{}, h.inject(ctx, r)
	}
	return Response{}, fmt.Errorf("unknown verb %q", r.Verb)
}

// send tries until the victim is at its mailbox.
func (h *hostile) send(ctx context.Context, m signal.Message) error {
	for {
		err := h.box.Send(ctx, h.victim, "", m)
		if err == nil || ctx.Err() != nil {
			return err
		}
		pause(ctx, 100*time.Millisecond)
	}
}

// begin is an offer, as the side that begins searches makes them.
func (h *hostile) begin(ctx context.Context) (signal.Message, error) {
	var b [signal.SearchLen/2 + signal.KeyLen]byte
	_, _ = rand.Read(b[:])
	m := signal.Message{
		Type: signal.Offer, Epoch: uint64(time.Now().UnixNano()), Search: hex.EncodeToString(b[:signal.SearchLen/2]), Key: b[signal.SearchLen/2:],
		Ufrag: "hostilehostile01c", Pwd: "hostilehostilehostilehostile",
	}
	return m, h.send(ctx, m)
}

// meet finds the search that the attack joins: its own, or the victim's.
func (h *hostile) meet(ctx context.Context) (signal.Message, error) {
	if h.controlling {
		return h.begin(ctx)
	}
	if err := h.send(ctx, signal.Message{Type: signal.Nudge}); err != nil {
		return signal.Message{}, err
	}
	for {
		select {
		case in := <-h.box.Messages():
			if in.Message.Type == signal.Offer {
				return h.accept(ctx, in.Message)
			}
		case <-ctx.Done():
			return signal.Message{}, errors.New("the victim began no search")
		}
	}
}

// accept answers the victim's offer of a search.
func (h *hostile) accept(ctx context.Context, offer signal.Message) (signal.Message, error) {
	m := signal.Message{Type: signal.Answer, Epoch: offer.Epoch, Search: offer.Search, Key: make([]byte, signal.KeyLen)}
	_, _ = rand.Read(m.Key)
	return m, h.send(ctx, m)
}

func (h *hostile) impostor(ctx context.Context) (Response, error) {
	search, err := h.meet(ctx)
	if err != nil {
		return Response{}, err
	}
	local, err := punch.Gather(ctx, punch.Config{Reflectors: h.box.Reflectors(), Hosts: true, Log: logger(h.debug)})
	if err != nil {
		return Response{}, err
	}
	defer local.Close()
	remote, err := h.exchange(ctx, search, local.Candidates())
	if err != nil {
		return Response{}, err
	}
	conn, err := local.Connect(ctx, remote, h.controlling, 20*time.Millisecond)
	if err != nil {
		return Response{}, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	var tc *tls.Conn
	if h.controlling {
		tc = tls.Client(conn, identity.OverlayClient(h.shown, h.roots, "", h.victim, ""))
	} else {
		tc = tls.Server(conn, identity.OverlayServer(h.shown, h.roots, h.victim.Cluster))
	}
	err = tc.HandshakeContext(ctx)
	if err == nil && h.controlling {
		var code frame.Code
		if code, err = frame.ReadGreeting(tc); err == nil && code != frame.Accepted {
			err = fmt.Errorf("greeted with %s", code)
		}
	} else if err == nil {
		if _, err = tc.Write(frame.AppendGreeting(nil, frame.Accepted)); err == nil {
			_, err = tc.Read(make([]byte, 1))
		}
	}
	if err != nil {
		return Response{Refusal: err.Error()}, nil
	}
	return Response{}, nil
}

// exchange names own in search and waits for where the victim may be reached over TCP. A search
// that the victim has given up meanwhile ends with its offer of the next one.
func (h *hostile) exchange(ctx context.Context, search signal.Message, own []punch.Candidate) ([]punch.Candidate, error) {
	for {
		m := signal.Message{Type: signal.Candidates, Epoch: search.Epoch, Search: search.Search}
		for _, c := range own {
			m.TCP = append(m.TCP, signal.TCPCandidate{Kind: string(c.Kind), Addr: c.Addr})
		}
		if err := h.send(ctx, m); err != nil {
			return nil, err
		}
		remote, next, err := h.addresses(ctx, search.Search)
		if err != nil || len(remote) > 0 {
			return remote, err
		}
		if search, err = h.accept(ctx, next); err != nil {
			return nil, err
		}
	}
}

// addresses waits for the victim's addresses of search, or for its offer of another one.
func (h *hostile) addresses(ctx context.Context, search string) (remote []punch.Candidate, next signal.Message, err error) {
	for {
		select {
		case in := <-h.box.Messages():
			if !h.controlling && in.Message.Type == signal.Offer && in.Message.Search != search {
				return nil, in.Message, nil
			}
			if in.Message.Search != search || len(in.Message.TCP) == 0 {
				continue
			}
			for _, c := range in.Message.TCP {
				remote = append(remote, punch.Candidate{Kind: punch.Kind(c.Kind), Addr: c.Addr})
			}
			return remote, next, nil
		case <-ctx.Done():
			return nil, next, errors.New("the victim named no addresses")
		}
	}
}

// inject aims the victim at addresses that are not the sender's.
func (h *hostile) inject(ctx context.Context, r Request) error {
	search, err := h.meet(ctx)
	if err != nil {
		return err
	}
	all := signal.Message{Type: signal.Candidates, Epoch: search.Epoch, Search: search.Search}
	kinds := []punch.Kind{punch.Mapped, punch.Host, punch.Listen}
	for i, to := range r.Targets[:min(len(r.Targets), punch.MaxCandidates)] {
		all.TCP = append(all.TCP, signal.TCPCandidate{Kind: string(kinds[i%len(kinds)]), Addr: to})
	}
	if err := h.send(ctx, all); err != nil {
		return err
	}
	for i, to := range r.Targets {
		m := signal.Message{Type: signal.Candidates, Epoch: search.Epoch, Search: search.Search}
		mapped := netip.AddrFrom16(to.Addr().As16())
		for j, a := range []netip.Addr{to.Addr(), mapped} {
			for k, kind := range []string{"host", "srflx raddr 0.0.0.0 rport 0", "relay raddr 0.0.0.0 rport 0"} {
				m.Candidates = append(m.Candidates, fmt.Sprintf("%d 1 udp %d %s %d typ %s", 10*i+3*j+k+1, 2130706431-k, a, to.Port(), kind))
			}
		}
		if err := h.send(ctx, m); err != nil {
			return err
		}
	}
	return nil
}
