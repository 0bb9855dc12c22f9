package front

import (
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/pion/stun/v2"

	"cadre.dev/overlay/internal/mailbox"
	"cadre.dev/overlay/rendezvous/internal/member"
)

// offer mints credentials for the caller, and names their servers. host is the address by
// which the caller has reached us: TURN over TLS is there too.
func (f *Front) offer(who member.Caller, at netip.Addr, host string) (mailbox.Offer, time.Time) {
	addresses := f.cfg.Addresses()
	o := mailbox.Offer{Reflectors: addresses}
	if len(addresses) == 0 {
		return o, time.Time{}
	}
	c := f.cfg.Mint.Issue(who.Member, at, who.Expires, f.cfg.Now())
	f.cfg.Meter.Issued()
	for _, a := range addresses {
		o.ICE = append(o.ICE, mailbox.ICEServer{URL: "stun:" + a})
		for _, transport := range []string{"udp", "tcp"} {
			o.ICE = append(o.ICE, mailbox.ICEServer{
				URL: "turn:" + a + "?transport=" + transport, Username: c.Username, Password: c.Password, Expires: c.Expires,
			})
		}
	}
	if at := hostPort(host); f.cfg.OverTLS && at != "" {
		o.ICE = append(o.ICE, mailbox.ICEServer{
			URL: "turns:" + at + "?transport=tcp", Username: c.Username, Password: c.Password, Expires: c.Expires,
		})
	}
	return o, c.Expires
}

// maxHost bounds the host that a member says it has reached, as DNS does.
const maxHost = 255

// hostPort returns the Host of a request with its port; "" for an invalid one. Only the
// sender gets it back.
func hostPort(host string) string {
	if _, _, err := net.SplitHostPort(host); err != nil {
		host = net.JoinHostPort(strings.Trim(host, "[]"), "443")
	}
	if u, err := stun.ParseURI("turns:" + host); err != nil || u.Host == "" || len(host) > maxHost {
		return ""
	}
	return host
}

func (f *Front) serveCredentials(w http.ResponseWriter, r *http.Request, who member.Caller) {
	o, _ := f.offer(who, remote(r), r.Host)
	f.answer(w, http.StatusOK, o)
}

// revoke ends Boots of the caller's cluster: their mailboxes, their credentials, and
// their present relay allocations. It takes back the Boots of the caller's earlier list
// that the new list lacks.
func (f *Front) revoke(who member.Caller, boots []string) *mailbox.Refusal {
	if !f.cfg.Revocations || who.ID.Group != coordinators {
		return refusal(mailbox.CodeScope, "only coordinators may end boots here")
	}
	f.cfg.Revoked.Replace(who.Member, boots, f.cfg.Now())
	gone := func(m member.Member) bool {
		return m.ID.Cluster == who.ID.Cluster && slices.Contains(boots, m.Boot)
	}
	mailboxes, allocations := f.cfg.Mailboxes.Close(gone), f.cfg.EndRelay(gone)
	if mailboxes > 0 || allocations > 0 {
		f.log.Info("boots ended", "peer", who.ID.String(), "mailboxes", mailboxes, "allocations", allocations)
	}
	return nil
}

func (f *Front) serveRevoked(w http.ResponseWriter, r *http.Request, who member.Caller) {
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mailbox.MaxFrame))
	if err != nil {
		f.refuse(w, refusal(mailbox.CodeTooLarge, "the request is too long"))
		return
	}
	var body mailbox.Revocation
	if err := mailbox.Decode(b, &body); err == nil {
		err = body.Check()
		if err == nil {
			if refused := f.revoke(who, body.Boots); refused != nil {
				f.refuse(w, refused)
				return
			}
			f.answer(w, http.StatusOK, struct{}{})
			return
		}
	}
	f.refuse(w, refusal(mailbox.CodeRequest, `want {"boots":["<64 hex digits>", ...]}`))
}
