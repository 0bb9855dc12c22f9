package renewal

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"cadre.dev/agent/internal/latestvalue"
	"cadre.dev/raced/synctest"
)

// TestTOK15_EveryRotationIsSpread: the Boots renew at different times after the second rotation of
// a secret, as after the first one.
func TestTOK15_EveryRotationIsSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var (
			epoch latestvalue.Value[uint64] // of the secret
			mu    sync.Mutex
			came  = map[time.Time]int{}
			wg    sync.WaitGroup
		)
		epoch.Set(1)
		ctx, cancel := context.WithCancel(t.Context())
		for range 100 {
			wg.Go(func() {
				had, _ := epoch.Get()
				loop := Loop{Config: Config{
					Renew: func(context.Context) (Credentials, error) {
						mu.Lock()
						defer mu.Unlock()
						came[time.Now()]++
						had, _ = epoch.Get()
						return Credentials{Since: time.Now(), Ends: time.Now().Add(life)}, nil
					},
					Wanted: func() (uint64, <-chan struct{}) { _, i := epoch.Get(); return 0, epoch.Changed(i) },
					Behind: func() string {
						if now, _ := epoch.Get(); now > had {
							return "rotated"
						}
						return ""
					},
					Sessions: func() (int, <-chan struct{}) { return 1, nil },
					Log:      slog.New(slog.DiscardHandler),
				}}
				_ = loop.Run(ctx, Credentials{Since: time.Now(), Ends: time.Now().Add(life)})
			})
		}
		for rotation := range 3 {
			synctest.Wait()
			mu.Lock()
			clear(came)
			mu.Unlock()
			epoch.Update(func(e uint64) uint64 { return e + 1 })
			time.Sleep(2 * rotatedPause)
			synctest.Wait()
			mu.Lock()
			if all, apart := 0, len(came); apart < 90 {
				for _, n := range came {
					all += n
				}
				t.Errorf("rotation %d: %d renewals in %d moments, want each in its own", rotation+1, all, apart)
			}
			mu.Unlock()
		}
		cancel()
		wg.Wait()
	})
}
