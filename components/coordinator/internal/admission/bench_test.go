package admission

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/peer"

	"cadre.dev/core/group"
	"cadre.dev/core/policy"
	"cadre.dev/overlay"
	admissionv1 "cadre.dev/proto/cadre/admission/v1"
	"cadre.dev/store"
)

// BenchmarkRenew renews the credentials of many Slots against a real Consul, with one coordinator
// and its View of all records. BenchmarkRenew reports renewals per CPU second of this process, and
// the CPU time of Consul.
func BenchmarkRenew(b *testing.B) {
	const slots = 200
	h := newHarness(b)
	h.boot(composeText, h.seed).mustAdmit()
	h.service.cfg.LeaseTTL = time.Hour // no coordinator keeps the leases here
	callers := make([]context.Context, slots)
	boots := make([]string, slots)
	for n := range slots {
		callers[n], boots[n] = h.recorded(n)
	}
	h.await(fmt.Sprintf("pg-%d", slots))
	var turn atomic.Int64
	service := h.service.Credentials()
	one := func(n int) error {
		_, err := service.Renew(callers[n], &admissionv1.RenewRequest{BootId: boots[n]})
		return err
	}
	for n := range slots { // makes the Consul policies once
		if err := one(n); err != nil {
			b.Fatal(err)
		}
	}
	h.ahead.Add(int64(settled))
	server := consulPID(b)
	ownBefore, serverBefore := ownCPU(b), cpuOf(b, server)
	b.ResetTimer()
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for {
				n := turn.Add(1) - 1
				if n >= int64(b.N) {
					return
				}
				if n%slots == 0 {
					h.ahead.Add(int64(settled)) // the next round
				}
				if err := one(int(n % slots)); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	own, serverUsed := ownCPU(b)-ownBefore, cpuOf(b, server)-serverBefore
	b.ReportMetric(float64(b.N)/own.Seconds(), "renewals/core-s")
	b.ReportMetric(float64(own.Microseconds())/float64(b.N), "own-µs/op")
	b.ReportMetric(float64(serverUsed.Microseconds())/float64(b.N), "consul-µs/op")
}

// recorded writes a further Slot whose Boot was admitted like that of pg-0, and returns the context
// of a call from that Boot.
func (h *harness) recorded(n int) (context.Context, string) {
	h.t.Helper()
	slot := fmt.Sprintf("pg-%d", n+1)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		h.t.Fatal(err)
	}
	spki, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		h.t.Fatal(err)
	}
	sum := sha256.Sum256(spki)
	boot := hex.EncodeToString(sum[:])
	sp, _, err := store.Read[policy.SlotPolicy](h.t.Context(), h.store, store.SlotPolicyKey("pg-0"))
	if err != nil {
		h.t.Fatal(err)
	}
	sp.Slot, sp.InstanceID = slot, slot
	claims := h.admission().Claims
	claims.InstanceID = slot
	p, err1 := store.Put(store.SlotPolicyKey(slot), sp, 0)
	s, err2 := store.Put(store.SlotKey("pg", slot), group.SlotRecord{Group: "pg", Slot: slot, VIP: "127.50.1.1", InstanceID: slot}, 0)
	a, err3 := store.Put(store.AdmissionKey(slot), policy.Admission{
		Group: "pg", Slot: slot, BootID: boot, InstanceID: slot, AppID: sp.AppID, Revision: revision, Epoch: 1, Generation: 1,
		Claims: claims, AttestedAt: time.Now(),
	}, 0)
	if err1 != nil || err2 != nil || err3 != nil {
		h.t.Fatal(err1, err2, err3)
	}
	session, err := h.service.keeper.open(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	lock, err := lockOp(store.BootLease{Slot: slot, BootID: boot, InstanceID: slot, Generation: 1, Since: time.Now()}, session)
	if err != nil {
		h.t.Fatal(err)
	}
	if err := h.store.Commit(h.t.Context(), p, s, a, lock); err != nil {
		h.t.Fatal(err)
	}
	caller := overlay.Addr{ID: overlay.ID{Cluster: "demo", Group: "pg", Slot: slot}, BootID: boot, PublicKey: string(spki)}
	return peer.NewContext(h.t.Context(), &peer.Peer{Addr: caller}), boot
}

func (h *harness) await(slot string) {
	for {
		v, changed := h.service.cfg.Views.Latest()
		if _, ok := v.Admissions[slot]; ok {
			return
		}
		<-changed
	}
}

func ownCPU(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// consulPID returns the process ID of the server that this process started.
func consulPID(b *testing.B) int {
	b.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		b.Fatal(err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		if f := procStat(pid); err != nil || string(name) != "consul\n" || len(f) < 13 {
			continue
		} else if guard, err := strconv.Atoi(f[1]); err != nil {
			continue
		} else if f := procStat(guard); len(f) > 1 && f[1] == strconv.Itoa(os.Getpid()) {
			return pid
		}
	}
	b.Fatal("no server runs below this process")
	return 0
}

// procStat returns the fields of a process from its state on.
func procStat(pid int) []string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	return strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
}

func cpuOf(b *testing.B, pid int) time.Duration {
	b.Helper()
	f := procStat(pid)
	if len(f) < 13 {
		b.Fatal("the server is gone")
	}
	user, _ := strconv.Atoi(f[11])
	system, _ := strconv.Atoi(f[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}
