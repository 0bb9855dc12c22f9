package renewal

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"cadre.dev/agent/internal/admit"
	"cadre.dev/agent/internal/control"
)

const (
	// NoSessionLimit is how long the Boot goes without a control session before it requests the
	// coordinators' addresses at first contact.
	NoSessionLimit = 2 * time.Minute
	// admissionPause is the least time between two whole admissions, for any reason: each costs a
	// quote and its verification.
	admissionPause = 5 * time.Second
	// rotatedPause bounds how long a Boot waits before it renews for a new epoch of a secret. The
	// pause spreads the members, and the renewing coordinator may see the new epoch a little later
	// than the coordinator that reported it.
	rotatedPause = time.Second
)

// Config of a Loop. All fields but Behind and Forgotten are required.
type Config struct {
	// Renew requests credentials over any live control session, puts them in force and returns
	// them. After an error the old ones stay in force.
	Renew func(ctx context.Context) (Credentials, error)
	// Admit does so by a whole admission.
	Admit func(ctx context.Context) (Credentials, error)
	// Wanted is the newest policy epoch that is known, and a channel that closes with
	// the next change.
	Wanted func() (epoch uint64, changed <-chan struct{})
	// Behind names a rotated secret, from the same knowledge as Wanted; "" if none. It is called
	// after Wanted and may be nil.
	Behind func() string
	// Sessions counts the live control sessions, and has a channel that closes with the
	// next change.
	Sessions func() (live int, changed <-chan struct{})
	// Forgotten gets a value when the coordinators report that they do not know the Slot: only a
	// new admission helps then. nil: they never do.
	Forgotten <-chan struct{}
	// Denied receives each rejection: RENEW_DENIED, INCARNATION_STALE and the like. The present
	// credentials stay in force until they expire.
	Denied func(code string, err error)
	Log    *slog.Logger
}

// Loop renews. Make it with its fields, run it once.
type Loop struct {
	Config

	credentials Credentials
	failures    int
	denied      bool
	// next is when to try again; zero: when the credentials are due.
	next time.Time
	// evidence: only a whole admission will do.
	evidence bool
	// rotated is when to renew because of a rotation; zero: there was none.
	rotated  time.Time
	admitted time.Time // of the last whole admission tried
	alone    time.Time // since when no session was live; zero while one is
}

// Run keeps credentials in force until ctx ends.
func (l *Loop) Run(ctx context.Context, credentials Credentials) error {
	l.take(credentials)
	l.admitted = credentials.Since
	for {
		why, noSession := l.wait(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // only ctx ends it
		}
		if epoch, _ := l.Wanted(); epoch > l.credentials.Epoch {
			l.evidence = true
		}
		if l.evidence || noSession {
			l.admit(ctx, why)
		} else {
			l.renew(ctx)
		}
	}
}

func (l *Loop) take(h Credentials) {
	l.credentials, l.failures, l.denied, l.evidence = h, 0, false, false
	l.alone = time.Time{}          // the new credentials may name other coordinators
	l.rotated = time.Time{}        // the next rotation gets a new random pause
	l.next = h.due(rand.Float64()) //nolint:gosec // jitter is no secret
}

func (l *Loop) failed(denied bool) {
	l.failures++
	l.denied = denied
	l.next = time.Now().Add(pause(l.failures, denied, rand.Float64())) //nolint:gosec // as above
}

// wait returns when it is time to act: the credentials are due, a newer policy is in force, or no
// session was connected for the time NoSessionLimit.
func (l *Loop) wait(ctx context.Context) (why string, noSession bool) {
	for {
		epoch, epochChanged := l.Wanted()
		live, liveChanged := l.Sessions()
		now, at, reason := time.Now(), l.next, "credentials are due"
		if l.evidence {
			reason = "new evidence is asked for"
		}
		if epoch > l.credentials.Epoch && !l.denied && l.failures == 0 {
			// Not all Slots in the same moment: one policy may be many Slots'.
			at, reason = l.soon(now), "a newer policy is in force"
		}
		if why := l.behind(now); why != "" && l.rotated.Before(at) {
			at, reason = l.rotated, why
		}
		switch {
		case live > 0:
			l.alone = time.Time{}
		case l.alone.IsZero():
			l.alone = now
		}
		noSession := live == 0 && !l.alone.Add(NoSessionLimit).After(at)
		if noSession {
			at, reason = l.alone.Add(NoSessionLimit), "no coordinator is connected"
		}
		if !at.After(now) {
			return reason, noSession
		}
		timer := time.NewTimer(at.Sub(now))
		select {
		case <-ctx.Done():
			timer.Stop()
			return "", false
		case <-timer.C:
			return reason, noSession
		case <-epochChanged:
		case <-liveChanged:
		case <-l.Forgotten:
			l.evidence, l.next = true, l.soon(time.Now())
		}
		timer.Stop()
	}
}

// behind names a rotated secret, and schedules the renewal for it.
func (l *Loop) behind(now time.Time) string {
	if l.Behind == nil || l.denied || l.failures > 0 {
		return ""
	}
	why := l.Behind()
	if why != "" && l.rotated.IsZero() {
		l.rotated = now.Add(rand.N(rotatedPause)) //nolint:gosec // jitter is no secret
	}
	return why
}

// soon is when the next whole admission may be tried.
func (l *Loop) soon(now time.Time) time.Time {
	at := l.admitted.Add(admissionPause)
	if at.Before(now) {
		return now
	}
	return at
}

func (l *Loop) renew(ctx context.Context) {
	credentials, err := l.Renew(ctx)
	switch judge(err) {
	case granted:
		l.take(credentials)
	case attest:
		l.evidence = true
		l.next = l.soon(time.Now())
	case denied:
		l.Denied(admit.Code(err), err)
		l.failed(true)
	case again:
		if ctx.Err() == nil {
			l.Log.Warn("credentials are not renewed, the agent retries", "ends", l.credentials.Ends, "error", err)
		}
		l.failed(false)
		if errors.Is(err, control.ErrNoSession) {
			// No request was sent, so a longer pause would spare no coordinator.
			l.failures = min(l.failures, 1)
		}
	}
}

func (l *Loop) admit(ctx context.Context, why string) {
	l.Log.Info("the boot attests again", "reason", why)
	l.admitted = time.Now()
	credentials, err := l.Admit(ctx)
	if err == nil {
		l.take(credentials)
		return
	}
	if ctx.Err() == nil {
		l.Log.Warn("admission is not renewed, the agent retries", "code", admit.Code(err), "ends", l.credentials.Ends, "error", err)
	}
	l.failed(false)
	if !l.alone.IsZero() {
		l.alone = l.next.Add(-NoSessionLimit) // no two minutes more
	}
}
