package admission

import (
	"context"
	"errors"
	"slices"
	"time"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/store"
)

const (
	// TTL/renewShare passes between two renewals.
	renewShare = 3
	// sessionLimit bounds the call that ends the session.
	sessionLimit = 3 * time.Second
)

// own returns the session, or "" if there is none.
func (k *keeper) own() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.session
}

// open returns the session, and creates one if there is none.
func (k *keeper) open(ctx context.Context) (string, error) {
	select {
	case k.making <- struct{}{}:
		defer func() { <-k.making }()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	if session := k.own(); session != "" {
		return session, nil
	}
	session, err := k.cfg.Store.CreateSession(ctx, "cadre boots kept by "+k.cfg.Slot, k.cfg.LeaseTTL)
	if err != nil {
		return "", err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.session = session
	return session, nil
}

// renew renews the session if there is one, and drops it when it has ended.
func (k *keeper) renew(ctx context.Context) error {
	session := k.own()
	if session == "" {
		return nil
	}
	err := k.cfg.Store.RenewSession(ctx, session)
	if errors.Is(err, store.ErrNoSession) {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.session == session {
			k.session = ""
			k.cfg.Log.Warn("the session of the boots' leases has ended; a new session takes the leases again", "session", session)
		}
		return nil
	}
	return err
}

// renewing renews until ctx ends.
func (k *keeper) renewing(ctx context.Context) {
	failing := false
	for {
		wait := k.cfg.LeaseTTL / renewShare
		call, cancel := context.WithTimeout(ctx, wait)
		err := k.renew(call)
		cancel()
		if err != nil {
			wait = k.cfg.LeaseTTL / roundShare
			if !failing && ctx.Err() == nil {
				k.cfg.Log.Warn("leases of boots not renewed", "error", err)
			}
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// end frees all held leases for the other coordinators. If the call fails, the TTL frees them.
func (k *keeper) end(ctx context.Context) {
	session := k.own()
	if session == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sessionLimit)
	defer cancel()
	if err := k.cfg.Store.DestroySession(ctx, session); err != nil {
		k.cfg.Log.Warn("session of the boots' leases not ended; it expires automatically", "error", err)
	}
}

// past returns the sessions with which an earlier process of this coordinator holds leases.
func (k *keeper) past(v *view.View) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []string
	for _, lease := range v.Boots {
		if lease.Leased() && lease.By == k.cfg.Slot && lease.Session != k.session && !k.ended[lease.Session] && !slices.Contains(out, lease.Session) {
			out = append(out, lease.Session)
		}
	}
	return out
}

// endPast ends the sessions that a crashed process of this coordinator left behind. There is one
// process per Slot, so those sessions are renewed no more. Consul would end them two TTLs after it
// has a leader again, and after a power loss every Boot would wait for that. From then on the
// leases are as after a clean end: each stays reserved for its live Boot before a successor may
// take it.
func (k *keeper) endPast(ctx context.Context, v *view.View) {
	for _, session := range k.past(v) {
		call, cancel := context.WithTimeout(ctx, sessionLimit)
		err := k.cfg.Store.DestroySession(call, session)
		cancel()
		if err != nil {
			if ctx.Err() == nil {
				k.cfg.Log.Warn("session of this coordinator's last process not ended; it expires automatically", "error", err)
			}
			continue // the next round retries it
		}
		k.mu.Lock()
		k.ended[session] = true
		k.mu.Unlock()
		k.cfg.Log.Info("leases of this coordinator's last process ended", "session", session)
	}
}
