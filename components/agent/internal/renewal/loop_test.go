package renewal

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/agent/internal/control"
	"cadre.dev/agent/internal/latestvalue"
	"cadre.dev/raced/synctest"
)

const life = 15 * time.Minute

// cluster plays all coordinators together, in virtual time.
type cluster struct {
	sessions latestvalue.Value[int]
	epoch    latestvalue.Value[uint64]

	mu      sync.Mutex
	err     error // of every call; nil: granted
	renewed []time.Time
	tried   []time.Time
	admits  []time.Time
	expired int
	denied  []string
}

func (c *cluster) fail(err error) { c.mu.Lock(); c.err = err; c.mu.Unlock() }

// boot is one agent's loop.
func (c *cluster) boot(ctx context.Context) {
	credentials := Credentials{Since: time.Now(), Ends: time.Now().Add(life), Epoch: 1}
	grant := func(whole bool) (Credentials, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		now := time.Now()
		c.tried = append(c.tried, now)
		if whole {
			c.admits = append(c.admits, now)
		}
		if !now.Before(credentials.Ends) {
			c.expired++
		}
		if c.err != nil {
			return Credentials{}, c.err
		}
		if !whole {
			c.renewed = append(c.renewed, now)
		}
		credentials = Credentials{Since: now, Ends: now.Add(life), Epoch: credentials.Epoch}
		if whole {
			credentials.Epoch, _ = c.epoch.Get()
		}
		return credentials, nil
	}
	loop := Loop{Config: Config{
		Renew: func(context.Context) (Credentials, error) {
			if n, _ := c.sessions.Get(); n == 0 {
				return Credentials{}, control.ErrNoSession
			}
			return grant(false)
		},
		Admit:    func(context.Context) (Credentials, error) { return grant(true) },
		Wanted:   func() (uint64, <-chan struct{}) { e, i := c.epoch.Get(); return e, c.epoch.Changed(i) },
		Sessions: func() (int, <-chan struct{}) { n, i := c.sessions.Get(); return n, c.sessions.Changed(i) },
		Denied:   func(code string, _ error) { c.mu.Lock(); c.denied = append(c.denied, code); c.mu.Unlock() },
		Log:      slog.New(slog.DiscardHandler),
	}}
	_ = loop.Run(ctx, credentials)
}

// run gives f the cluster with n Boots in virtual time.
func run(t *testing.T, n int, f func(c *cluster)) *cluster {
	t.Helper()
	c := &cluster{}
	synctest.Test(t, func(t *testing.T) {
		c.sessions.Set(3)
		c.epoch.Set(1)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range n {
			wg.Go(func() { c.boot(ctx) })
		}
		synctest.Wait()
		f(c)
		cancel()
		wg.Wait()
	})
	return c
}

// TestTOK15_OutageOfHalfALife: all coordinators are away for half a life, beginning
// whenever; nothing ends meanwhile.
func TestTOK15_OutageOfHalfALife(t *testing.T) {
	for name, c := range map[string]struct {
		err      error
		sessions int
	}{
		"no answer":     {status.Error(codes.Unavailable, "no leader"), 3},
		"not connected": {status.Error(codes.Unavailable, "no coordinator"), 0},
	} {
		for begin := time.Duration(0); begin < life; begin += 41 * time.Second {
			got := run(t, 20, func(k *cluster) {
				time.Sleep(begin)
				k.fail(c.err)
				k.sessions.Set(c.sessions)
				time.Sleep(life / 2)
				k.fail(nil)
				k.sessions.Set(3)
				time.Sleep(2 * life)
			})
			if got.expired != 0 || len(got.renewed) == 0 {
				t.Errorf("%s from %v: %d renewals came too late", name, begin, got.expired)
			}
		}
	}
}

// TestTOK15_NoThunder: a thousand Boots that were admitted in the same moment renew
// over a ninth of the life, and stay spread.
func TestTOK15_NoThunder(t *testing.T) {
	const boots = 1000
	c := run(t, boots, func(*cluster) { time.Sleep(2 * time.Hour) })
	if c.expired != 0 || len(c.admits) != 0 {
		t.Errorf("%d too late, %d admissions", c.expired, len(c.admits))
	}
	begin := c.renewed[0].Truncate(time.Second)
	perSecond := map[int]int{}
	most := 0
	for _, at := range c.renewed {
		s := int(at.Sub(begin).Seconds())
		perSecond[s]++
		most = max(most, perSecond[s])
	}
	t.Logf("%d renewals in 2 h, at most %d in one second", len(c.renewed), most)
	// The mean of the first round is 1000 over 105 s.
	if most > 30 {
		t.Errorf("%d renewals in one second", most)
	}
	if each := float64(len(c.renewed)) / boots; each < 17 || each > 25 {
		t.Errorf("%.1f renewals of each boot in 2 h, want one in 5 to 7 min", each)
	}
}

// TestTOK15_OutageDoesNotEndInThunder: when coordinators are back, a thousand overdue Boots renew
// within their jittered pauses and not in one moment.
func TestTOK15_OutageDoesNotEndInThunder(t *testing.T) {
	c := run(t, 1000, func(k *cluster) {
		time.Sleep(life / 3)
		k.fail(status.Error(codes.Unavailable, "no leader"))
		time.Sleep(life / 2)
		k.mu.Lock()
		k.err, k.renewed = nil, nil
		k.mu.Unlock()
		time.Sleep(time.Minute)
	})
	perSecond, most := map[int64]int{}, 0
	for _, at := range c.renewed {
		perSecond[at.Unix()]++
		most = max(most, perSecond[at.Unix()])
	}
	t.Logf("%d renewals after the outage, at most %d in one second", len(c.renewed), most)
	if c.expired != 0 || len(c.renewed) < 900 || most > 200 {
		t.Errorf("%d too late, %d renewals, at most %d in one second", c.expired, len(c.renewed), most)
	}
}

func TestNewerPolicyAsksForEvidenceAtOnce(t *testing.T) {
	c := run(t, 1, func(k *cluster) {
		time.Sleep(time.Minute)
		k.epoch.Set(2)
		time.Sleep(time.Second)
		k.mu.Lock()
		if len(k.admits) != 1 {
			t.Errorf("%d admissions after a second", len(k.admits))
		}
		k.mu.Unlock()
		for e := range uint64(20) { // a policy that changes all the time
			k.epoch.Set(3 + e)
			time.Sleep(time.Second)
		}
		time.Sleep(time.Minute)
	})
	if n := len(c.admits); n < 3 || n > 7 {
		t.Errorf("%d admissions for 21 epochs in 20 s, want one in %v", n, admissionPause)
	}
}

func TestReattestRequired(t *testing.T) {
	c := run(t, 1, func(k *cluster) {
		k.fail(status.Error(codes.FailedPrecondition, "REATTEST_REQUIRED: the evidence is old"))
		time.Sleep(life / 2)
		k.fail(nil)
		time.Sleep(life)
	})
	if len(c.admits) < 2 || len(c.denied) != 0 || c.expired != 0 {
		t.Errorf("%d admissions, denied %v, %d too late", len(c.admits), c.denied, c.expired)
	}
}

func TestTOK03_DenialIsReportedAndNotHammered(t *testing.T) {
	c := run(t, 1, func(k *cluster) {
		k.fail(status.Error(codes.PermissionDenied, "INCARNATION_STALE: another boot holds the slot"))
		time.Sleep(life)
	})
	if len(c.denied) == 0 || c.denied[0] != "INCARNATION_STALE" {
		t.Errorf("denied %v", c.denied)
	}
	if n := len(c.tried); n > 45 || len(c.admits) != 0 {
		t.Errorf("%d tries, %d admissions in %v", n, len(c.admits), life)
	}
}

func TestLonelyBootsLookForCoordinators(t *testing.T) {
	c := run(t, 1, func(k *cluster) {
		k.sessions.Set(0)
		k.fail(errors.New("gateway"))
		time.Sleep(NoSessionLimit + 2*time.Minute)
		k.fail(nil)
		time.Sleep(time.Minute)
	})
	if n := len(c.admits); n < 5 || n > 30 {
		t.Errorf("%d admissions in two minutes of loneliness", n)
	}
}
