package overlaynode

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"cadre.dev/overlay/internal/carrier"
	"cadre.dev/overlay/internal/frame"
	"cadre.dev/overlay/internal/identity"
)

const (
	// scanners is how many streams are tried at once: less than a Peer may have.
	scanners = 200
	allPorts = 65535
)

// scan makes a Session with the victim's listener and tries every port.
func (h *hostile) scan(ctx context.Context, addr netip.AddrPort) (Response, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp4", addr.String())
	if err != nil {
		return Response{}, err
	}
	defer conn.Close()
	tc := tls.Client(carrier.Metered(conn), identity.OverlayClient(h.own, h.roots, "", h.victim, ""))
	if err := tc.HandshakeContext(ctx); err != nil {
		return Response{}, err
	}
	if code, err := frame.ReadGreeting(tc); err != nil || code != frame.Accepted {
		return Response{}, errors.Join(errors.New(code.String()), err)
	}
	session, err := carrier.Client(ctx, tc, logger(h.debug))
	if err != nil {
		return Response{}, err
	}
	defer session.Wait()
	defer session.Close(errors.New("scan is over"))
	var res Response
	begin := time.Now()
	if err := scanTCP(session, &res); err != nil {
		return res, err
	}
	scanUDP(ctx, session, &res)
	res.Took = time.Since(begin)
	return res, nil
}

func scanTCP(session carrier.Session, res *Response) error {
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		ports = make(chan uint16)
		fails []error
	)
	for range scanners {
		wg.Go(func() {
			for port := range ports {
				code, err := tryPort(session, port)
				mu.Lock()
				switch {
				case err != nil:
					fails = append(fails, err)
				case code == frame.PortForbidden:
					res.Refused++
				default:
					res.TCP = append(res.TCP, port)
				}
				mu.Unlock()
			}
		})
	}
	for port := 1; port <= allPorts; port++ {
		ports <- uint16(port)
	}
	close(ports)
	wg.Wait()
	slices.Sort(res.TCP)
	return errors.Join(fails[:min(len(fails), 3)]...)
}

func tryPort(session carrier.Session, port uint16) (frame.Code, error) {
	st, err := session.OpenStream()
	if err != nil {
		return 0, err
	}
	defer st.Reset()
	_ = st.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := st.Write(frame.Header{Kind: frame.KindTCP, Port: port}.Append(nil)); err != nil {
		return 0, err
	}
	code, err := frame.ReadReply(st)
	if err == nil && code == frame.PortForbidden {
		_ = st.CloseWrite()
		_, _ = io.Copy(io.Discard, st)
	}
	return code, err
}

// scanUDP sends to every port and notes where anything comes back from.
func scanUDP(ctx context.Context, session carrier.Session, res *Response) {
	var (
		mu   sync.Mutex
		last time.Time
	)
	go func() {
		buf := make([]byte, frame.MaxDatagram)
		for {
			b, err := session.ReceiveDatagram(buf)
			if err != nil {
				return
			}
			d, err := frame.ParseDatagram(b)
			if err != nil {
				continue
			}
			mu.Lock()
			if !slices.Contains(res.UDP, d.Source) {
				res.UDP = append(res.UDP, d.Source)
			}
			last = time.Now()
			mu.Unlock()
		}
	}()
	// Twice: a packet that is lost once is rarely lost again.
	for range 2 {
		for port := 1; port <= allPorts; port++ {
			session.SendDatagram(frame.Datagram{Source: 40000, Destination: uint16(port), Payload: []byte("scan")}.Append(nil))
			if port%64 == 0 {
				pause(ctx, time.Millisecond)
			}
		}
	}
	for quiet := time.Now(); ctx.Err() == nil; {
		pause(ctx, 50*time.Millisecond)
		mu.Lock()
		if last.After(quiet) {
			quiet = last
		}
		mu.Unlock()
		if time.Since(quiet) > 500*time.Millisecond {
			break
		}
	}
	mu.Lock()
	defer mu.Unlock()
	slices.Sort(res.UDP)
}
