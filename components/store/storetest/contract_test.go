package storetest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

func TestMemoryContract(t *testing.T) {
	storetest.Run(t, func(*testing.T) store.Store {
		return storetest.NewMemoryWith(storetest.MemoryConfig{SessionTTL: time.Second})
	})
}

func TestConsulContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store { return storetest.NewConsul(t) })
}

// TestCTL01_CTL04_TermsNeverInterleave: leaders lose their sessions in the middle of their work and
// do not notice. The applied writes are in the order of the Terms all the same.
func TestCTL01_CTL04_TermsNeverInterleave(t *testing.T) {
	type breakable interface {
		store.Store
		DestroyHolderSession(ctx context.Context, holder string) (bool, error)
	}
	for name, s := range map[string]breakable{
		"memory": storetest.NewMemoryWith(storetest.MemoryConfig{SessionTTL: time.Second}), "consul": storetest.NewConsul(t),
	} {
		t.Run(name, func(t *testing.T) {
			const contenders, rounds = 3, 3
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			take := func(holder string) (store.Lease, error) { return store.AcquireBlocking(ctx, s, holder, nil) }
			write := func(lease store.Lease, when string) error {
				key := fmt.Sprintf("log/%d-%s", lease.Term(), when)
				return s.Commit(ctx, append(lease.Fence(), store.Op{Kind: store.OpPut, Key: key, Value: fmt.Appendf(nil, "%03d", lease.Term())})...)
			}
			// lead loses the session between two writes; another leader writes before the second
			// one.
			lead := func(holder string) error {
				lease, err := take(holder)
				if err != nil {
					return err
				}
				defer lease.Release(ctx) //nolint:errcheck // it is lost
				err = write(lease, "first")
				if err == nil {
					_, err = s.DestroyHolderSession(ctx, holder)
				}
				if err != nil {
					return err
				}
				next, err := take(holder + "'s successor")
				if err != nil {
					return err
				}
				if err := errors.Join(write(next, "first"), next.Release(ctx)); err != nil {
					return err
				}
				if err := write(lease, "stale"); !errors.Is(err, store.ErrFenced) {
					return fmt.Errorf("a stale write: %v", err) //nolint:errorlint // it may be nil
				}
				return nil
			}
			var all sync.WaitGroup
			for i := range contenders {
				all.Go(func() {
					for range rounds {
						if err := lead(fmt.Sprint("holder-", i)); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			all.Wait()
			entries, _, err := s.List(ctx, "log/")
			if err != nil {
				t.Fatal(err)
			}
			slices.SortFunc(entries, func(a, b store.Entry) int { return int(a.Index) - int(b.Index) })
			last := ""
			for _, e := range entries {
				if v := string(e.Value); v < last {
					t.Errorf("%s was written after %s", v, last)
				} else {
					last = v
				}
			}
			if len(entries) != 2*contenders*rounds {
				t.Errorf("%d writes", len(entries))
			}
		})
	}
}
