package contest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cadre.dev/bench/internal/overlay/ours"
	"cadre.dev/lab/natlab"
	"cadre.dev/lab/worker"
)

// measurement returns a value, and its parts.
type measurement func(ctx context.Context, r *rig, p pace) (value float64, detail map[string]float64, err error)

// solo is a figure that is measured separately, once a round.
type solo struct {
	name, unit, aim string
	measure         measurement
	// pooled values are shares of tries: the rounds' mean counts, for a median
	// would forget the worst round's failures.
	pooled bool
}

var solos = []solo{
	{name: "direct_tcp_success", unit: "share", aim: ">= 0.99", measure: directTCP, pooled: true},
	{name: "wan20_loss1_stream_carrier", unit: "share", aim: ">= 0.85", measure: bulkShare(wan20Loss1, streamOnly)},
	{name: "wan20_loss1_udp_carrier", unit: "share", aim: ">= 0.8", measure: bulkShare(wan20Loss1, udpOnly)},
	{name: "wan100_one_stream", unit: "share", aim: ">= 0.75", measure: worst(lower, "share", bulkShare(wan100, streamOnly), bulkShare(wan100, udpOnly))},
	{name: "control_ping_under_bulk_wan20", unit: "ratio", aim: "<= 3.0", measure: worst(higher, "ratio", controlPing(streamOnly), controlPing(udpOnly))},
	{name: "first_byte_ms", unit: "ms", aim: "<= 150", measure: firstByte},
	{name: "gap_path_death_s", unit: "s", aim: "<= 1.0", measure: pathDeath},
	{name: "gap_peer_restart_s", unit: "s", aim: "<= 0.3", measure: peerRestart(usual)},
	{name: "idle_peer_kib", unit: "KiB", aim: "<= 150", measure: worst(higher, "kib", idlePeer(streamOnly), idlePeer(udpOnly))},
}

// Profiles of the wide area. All of it is on A's link, so that A's way to B and
// to the rendezvous are alike. Delay is one way.
var (
	wan20      = natlab.Link{Delay: 10 * time.Millisecond, RateMbps: linkMbps}
	wan20Loss1 = natlab.Link{Delay: 10 * time.Millisecond, RateMbps: linkMbps, Loss: 0.01}
	wan100     = natlab.Link{Delay: 50 * time.Millisecond, RateMbps: linkMbps}
)

const linkMbps = 200

// wanPace gives congestion control time to find the link's rate.
func wanPace(p pace) pace {
	return pace{window: max(p.window, 5*time.Second), warm: 3 * time.Second}
}

// hosts are the places of a measurement in the lab.
type hosts struct {
	lab  *natlab.Lab
	a, b site
	rdv  []ours.Rendezvous
}

// Names of the hosts in the lab.
const (
	hostA = "a"
	hostB = "b"
	hostR = "rendezvous"
)

// newLab makes a lab that ends with the rig.
func newLab(ctx context.Context, r *rig) (*natlab.Lab, error) {
	if err := natlab.Available(); err != nil {
		return nil, fmt.Errorf("the NAT lab: %w here: %w", worker.ErrUnavailable, err)
	}
	lab, err := natlab.New(ctx, natlab.Config{})
	if err != nil {
		return nil, err
	}
	r.also(lab.Close)
	return lab, nil
}

// wan is two hosts with public addresses, A behind a link.
func wan(ctx context.Context, r *rig, link natlab.Link, w ways) (*hosts, error) {
	lab, err := newLab(ctx, r)
	if err != nil {
		return nil, err
	}
	h := &hosts{lab: lab}
	if h.a, err = public(lab, hostA); err != nil {
		return nil, err
	}
	if h.b, err = public(lab, hostB); err != nil {
		return nil, err
	}
	if err := lab.SetLink(hostA, link); err != nil {
		return nil, err
	}
	return h, h.meet(ctx, r, w)
}

// natted is two hosts behind a box each.
func natted(ctx context.Context, r *rig, nat natlab.NAT, link natlab.Link, w ways) (*hosts, error) {
	lab, err := newLab(ctx, r)
	if err != nil {
		return nil, err
	}
	h := &hosts{lab: lab}
	for _, one := range []struct {
		name string
		site *site
	}{{hostA, &h.a}, {hostB, &h.b}} {
		host, err := lab.Behind(one.name, nat, link)
		if err != nil {
			return nil, err
		}
		*one.site = site{host, host.Addr()}
	}
	return h, h.meet(ctx, r, w)
}

// meet starts the rendezvous on a public host, where the ways need one.
func (h *hosts) meet(ctx context.Context, r *rig, w ways) error {
	if !w.rendezvous() {
		return nil
	}
	s, err := public(h.lab, hostR)
	if err != nil {
		return err
	}
	h.rdv, err = r.rendezvous(ctx, s)
	return err
}

func public(lab *natlab.Lab, name string) (site, error) {
	host, err := lab.Public(name)
	if err != nil {
		return site{}, err
	}
	return site{host, host.Addr()}, nil
}

// bulkShare is the share of the link's rate that one application's stream gets.
func bulkShare(link natlab.Link, w ways) measurement {
	return func(ctx context.Context, r *rig, p pace) (float64, map[string]float64, error) {
		h, err := wan(ctx, r, link, w)
		if err != nil {
			return 0, nil, err
		}
		pair, err := newPair(ctx, r, coordinator, h.a, h.b, w, h.rdv)
		if err != nil {
			return 0, nil, err
		}
		l, err := pair.apps(ctx)
		if err != nil {
			return 0, nil, err
		}
		f, err := l.flow(ctx, wanPace(p), 1)
		return f.Mbps / linkMbps, map[string]float64{"mbps": f.Mbps, "cpu_s_per_gb": f.CPU}, err
	}
}

// controlPing compares pings on a Session's control connection with and without
// an application's bulk on the same Session.
func controlPing(w ways) measurement {
	return func(ctx context.Context, r *rig, p pace) (float64, map[string]float64, error) {
		h, err := wan(ctx, r, wan20, w)
		if err != nil {
			return 0, nil, err
		}
		pair, err := newPair(ctx, r, coordinator, h.a, h.b, w, h.rdv)
		if err != nil {
			return 0, nil, err
		}
		l, err := pair.apps(ctx)
		if err != nil {
			return 0, nil, err
		}
		l.pingFrom, l.pingTo = pair.a, ""
		p = wanPace(p)
		quiet, err := l.ping(ctx, p.window/2)
		if err != nil {
			return 0, nil, err
		}
		busy, err := l.loadedPing(ctx, p)
		if err != nil {
			return 0, nil, err
		}
		return microseconds(busy) / microseconds(quiet), map[string]float64{
			"unloaded_ms": microseconds(quiet) / 1e3, "loaded_ms": microseconds(busy) / 1e3,
		}, nil
	}
}

// lower and higher choose the worse of two values.
func lower(a, b float64) float64  { return min(a, b) }
func higher(a, b float64) float64 { return max(a, b) }

// worst measures with the byte-stream carrier and with the datagram carrier and
// takes the worse value; the detail has both. It needs both.
func worst(choose func(a, b float64) float64, what string, stream, udp measurement) measurement {
	return func(ctx context.Context, r *rig, p pace) (float64, map[string]float64, error) {
		one := func(m measurement) (float64, map[string]float64, error) {
			own := &rig{env: r.env}
			v, d, err := m(ctx, own, p)
			return v, d, errors.Join(err, own.close())
		}
		// The datagram carrier first: without it there is nothing to compare.
		v, d, err := one(udp)
		if err != nil {
			return 0, nil, err
		}
		detail := map[string]float64{"udp_" + what: v}
		for name, x := range d {
			detail["udp_"+name] = x
		}
		w, d, err := one(stream)
		if err != nil {
			return 0, nil, err
		}
		detail["stream_"+what] = w
		for name, x := range d {
			detail["stream_"+name] = x
		}
		return choose(v, w), detail, nil
	}
}
