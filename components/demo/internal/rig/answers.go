package rig

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"
)

// answers notes how long members of the light group did not answer.
type answers struct {
	mu   sync.Mutex
	away map[string]time.Time // guarded by mu; since when a member did not answer
	// few is since when more than one did not; zero: at most one.
	few time.Time // guarded by mu
	// worstOne is the longest time that one member was away, worstFew that more than one were.
	worstOne, worstFew time.Duration // guarded by mu
}

// note says whether a member answered a request, at the end of that.
func (a *answers) note(slot string, answered bool, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.settle(at)
	if _, known := a.away[slot]; answered {
		delete(a.away, slot)
	} else if !known {
		a.away[slot] = at
	}
	switch {
	case len(a.away) < 2:
		a.few = time.Time{}
	case a.few.IsZero():
		a.few = at
	}
}

// settle counts spans that are not over. The caller holds mu.
func (a *answers) settle(at time.Time) {
	for _, since := range a.away {
		a.worstOne = max(a.worstOne, at.Sub(since))
	}
	if !a.few.IsZero() {
		a.worstFew = max(a.worstFew, at.Sub(a.few))
	}
}

// askMembers asks the web server of each member of the light group for its page again and again, from
// inside its CVM. The function that it returns ends that, and returns the longest times in which one member
// did not answer, and in which more than one did not.
func (r *Rig) askMembers(ctx context.Context) func() (one, few float64) {
	ctx, stop := context.WithCancel(ctx)
	seen := &answers{away: map[string]time.Time{}}
	var asking sync.WaitGroup
	for _, slot := range lightSlots() {
		asking.Go(func() {
			each(ctx, 200*time.Millisecond, func(ctx context.Context) bool {
				answered := r.page(ctx, slot)
				if ctx.Err() == nil {
					seen.note(slot, answered, time.Now())
				}
				return false
			})
		})
	}
	return func() (one, few float64) {
		stop()
		asking.Wait()
		seen.mu.Lock()
		defer seen.mu.Unlock()
		seen.settle(time.Now())
		return seen.worstOne.Seconds(), seen.worstFew.Seconds()
	}
}

// page reports that a member's web server answers with its page.
func (r *Rig) page(ctx context.Context, slot string) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	within, err := r.inside(slot)
	if err != nil {
		return false
	}
	defer within.close()
	transport := &http.Transport{DialContext: within.dial, DisableKeepAlives: true}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:8080/index.html", nil)
	if err != nil {
		return false
	}
	answer, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, io.LimitReader(answer.Body, 1<<16))
	_ = answer.Body.Close()
	return err == nil && answer.StatusCode == http.StatusOK
}
