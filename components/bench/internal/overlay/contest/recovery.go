package contest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cadre.dev/bench/internal/overlay/baseline"
	"cadre.dev/bench/internal/overlay/load"
	"cadre.dev/bench/internal/overlay/ours"
	"cadre.dev/bench/internal/overlay/place"
	"cadre.dev/figures"
	"cadre.dev/lab/natlab"
)

// beatEvery is the application's traffic while something fails.
const beatEvery = 5 * time.Millisecond

// directTries is how often direct TCP is tried in a round; three rounds make 100.
const directTries = 34

// directLimit bounds a try from the peer map's arrival at both ends: 3 round trips of 40 ms to
// connect, and the steps around them: a TCP connection and a question to the reflector, offer and
// answer, TLS, greeting and session.
const directLimit = 10 * 40 * time.Millisecond

// directPatience is how long a try is watched that is late.
const directPatience = 5 * directLimit

// directTCP is the share of tries in which two hosts behind NATs that swallow
// unsolicited SYNs get a direct TCP Session in time, 20 ms one way.
func directTCP(ctx context.Context, r *rig, _ pace) (float64, map[string]float64, error) {
	link := natlab.Link{Delay: 10 * time.Millisecond}
	h, err := natted(ctx, r, natlab.PortRestricted, link, tcpOnly)
	if err != nil {
		return 0, nil, err
	}
	pair, err := newPair(ctx, r, workerToo, h.a, h.b, tcpOnly, h.rdv)
	if err != nil {
		return 0, nil, err
	}
	var took []float64
	good := 0
	for range directTries {
		if err := pair.part(ctx); err != nil {
			return 0, nil, err
		}
		begin := time.Now()
		if err := pair.meet(ctx); err != nil {
			return 0, nil, err
		}
		if err := pair.upWithin(ctx, directPatience, ours.TCP); err != nil {
			if ctx.Err() != nil {
				return 0, nil, err
			}
			continue // counts a failed try
		}
		d := time.Since(begin)
		took = append(took, float64(d.Microseconds())/1e3)
		if d <= directLimit {
			good++
		}
	}
	detail := map[string]float64{"tries": directTries, "up": float64(len(took)), "within_ms": float64(directLimit.Milliseconds())}
	if len(took) > 0 {
		detail["median_ms"] = figures.Median(took)
	}
	return float64(good) / directTries, detail, nil
}

// part empties both peer maps and waits until no Session is left.
func (p *pair) part(ctx context.Context) error {
	return errors.Join(p.a.Call(ctx, "peers", []ours.Peer{}, nil), p.b.Call(ctx, "peers", []ours.Peer{}, nil))
}

// meet gives both their peer maps again, at once.
func (p *pair) meet(ctx context.Context) error {
	other := make(chan error, 1)
	go func() { other <- p.b.Call(ctx, "peers", p.specB.Peers, nil) }()
	err := p.a.Call(ctx, "peers", p.specA.Peers, nil)
	return errors.Join(err, <-other)
}

// firstTries is how often a connection is made in a round.
const firstTries = 5

// firstByte is the time from the peer map's arrival to an application's first
// answer, between two hosts behind NATs that allow hole punching. Each is 10 ms
// from the rendezvous, so that a message takes 20 ms and its handling, and as far
// from the other.
func firstByte(ctx context.Context, r *rig, _ pace) (float64, map[string]float64, error) {
	half := natlab.Link{Delay: 5 * time.Millisecond}
	h, err := natted(ctx, r, natlab.PortRestricted, half, direct)
	if err != nil {
		return 0, nil, err
	}
	if err := h.lab.SetLink(hostR, half); err != nil {
		return 0, nil, err
	}
	pair, err := newPair(ctx, r, workerToo, h.a, h.b, direct, h.rdv) // then both are at the rendezvous
	if err != nil {
		return 0, nil, err
	}
	l, err := pair.apps(ctx)
	if err != nil {
		return 0, nil, err
	}
	var took []float64
	for range firstTries {
		if err := pair.part(ctx); err != nil {
			return 0, nil, err
		}
		if err := wait(ctx, 200*time.Millisecond); err != nil { // the listener's end
			return 0, nil, err
		}
		var answered time.Time
		first := make(chan error, 1)
		begin := time.Now()
		go func() {
			first <- l.pingFrom.Call(ctx, "first", baseline.Reach{To: l.pingTo, Within: linkTime}, &answered)
		}()
		if err := errors.Join(pair.meet(ctx), <-first); err != nil {
			return 0, nil, err
		}
		took = append(took, float64(answered.Sub(begin).Microseconds())/1e3)
	}
	return figures.Median(took), map[string]float64{"tries": firstTries, "one_way_to_rendezvous_ms": 10}, nil
}

// pathDeath is the longest silence that an application sees when everything
// between the hosts themselves is swallowed and only the relay is left.
func pathDeath(ctx context.Context, r *rig, _ pace) (float64, map[string]float64, error) {
	w := ways{ours.UDP, ours.Relay}
	h, err := natted(ctx, r, natlab.PortRestricted, natlab.Link{Delay: 5 * time.Millisecond}, w)
	if err != nil {
		return 0, nil, err
	}
	pair, err := newPair(ctx, r, workerToo, h.a, h.b, w, h.rdv)
	if err != nil {
		return 0, nil, err
	}
	l, err := pair.apps(ctx)
	if err != nil {
		return 0, nil, err
	}
	if err := l.pingFrom.Call(ctx, "beat", load.BeatArgs{To: l.pingTo, Every: beatEvery}, nil); err != nil {
		return 0, nil, err
	}
	// Time for the second path to be found and probed, as on any day but the first.
	if err := wait(ctx, 5*time.Second); err != nil {
		return 0, nil, err
	}
	if err := pair.upWithin(ctx, beatEvery, ours.UDP); err != nil {
		return 0, nil, fmt.Errorf("the direct path did not last: %w", err)
	}
	if err := h.lab.Partition(hostA, hostB, true); err != nil {
		return 0, nil, err
	}
	if err := wait(ctx, 5*time.Second); err != nil {
		return 0, nil, err
	}
	silence, err := ask[load.Silence](ctx, l.pingFrom, "beat-stop")
	if err != nil {
		return 0, nil, err
	}
	if err := pair.upWithin(ctx, linkTime, ours.Relay); err != nil {
		return 0, nil, fmt.Errorf("the relay did not take over: %w", err)
	}
	return silence.Length().Seconds(), nil, nil
}

// peerRestart is how long an application waits for its first answer after its
// peer's node, which was killed, listens again.
func peerRestart(w ways) measurement {
	return func(ctx context.Context, r *rig, _ pace) (float64, map[string]float64, error) {
		c, err := place.NewCable(ctx)
		if err != nil {
			return 0, nil, err
		}
		r.also(c.Close)
		pair, err := onCable(ctx, r, c, w)
		if err != nil {
			return 0, nil, err
		}
		l, err := pair.apps(ctx)
		if err != nil {
			return 0, nil, err
		}
		if err := l.pingFrom.Call(ctx, "beat", load.BeatArgs{To: l.pingTo, Every: beatEvery}, nil); err != nil {
			return 0, nil, err
		}
		if err := wait(ctx, time.Second); err != nil {
			return 0, nil, err
		}
		killed := time.Now()
		pair.b.Kill()
		if pair.b, err = r.start(ctx, pair.siteB.at, "node", pair.specB); err != nil {
			return 0, nil, err
		}
		listens := time.Now()
		if err := wait(ctx, 5*time.Second); err != nil {
			return 0, nil, err
		}
		silence, err := ask[load.Silence](ctx, l.pingFrom, "beat-stop")
		if err != nil {
			return 0, nil, err
		}
		if silence.To.Before(killed) {
			return 0, nil, errors.New("the application did not notice that its peer was killed")
		}
		return max(0, silence.To.Sub(listens).Seconds()), map[string]float64{
			"silence_s": silence.Length().Seconds(), "down_s": listens.Sub(killed).Seconds(),
		}, nil
	}
}
