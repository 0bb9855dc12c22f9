package admission

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cadre.dev/attest"
	"cadre.dev/attest/statement"
	"cadre.dev/coordinator/internal/keys"
	"cadre.dev/coordinator/internal/secrets"
	"cadre.dev/coordinator/internal/tokens"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/policy"
	admissionv1 "cadre.dev/proto/cadre/admission/v1"
	controlv1 "cadre.dev/proto/cadre/control/v1"
	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

// small is a cluster of coordinators on records in memory. Its verifier accepts every statement, so
// tests reach the checks after it. Thousands of exchanges take a second.
type small struct {
	t        testing.TB
	store    *storetest.Memory
	views    *view.Watcher
	services []*Service
	leader   store.Lease
	slots    int

	quotes atomic.Int64
	// quote and verify, if set, simulate the cost of a quote and of a verification.
	quote, verify func()

	mu   sync.Mutex
	live map[string]bool // guarded by mu; Boots
	// runsOn has the machine of each Instance that has one, and placed is the group's placement.
	runsOn map[string]string // guarded by mu
	placed group.Placement   // guarded by mu
	issued atomic.Int64
	now    atomic.Int64 // offset of the clock
}

type fakeGuest struct{ cluster string }

func (g fakeGuest) GetKey(_ context.Context, path, purpose string) ([]byte, error) {
	sum := sha256.Sum256([]byte(g.cluster + path + purpose))
	return sum[:], nil
}

func (s *small) GetQuote(context.Context, []byte) (attest.Evidence, error) {
	s.quotes.Add(1)
	if s.quote != nil {
		s.quote()
	}
	return attest.Evidence{Quote: []byte("quote")}, nil
}

// Verify takes the claims from the evidence of newcomer: the instance ID, and whether it is junk.
func (s *small) Verify(_ context.Context, ev attest.Evidence, data [64]byte) (policy.Claims, error) {
	if s.verify != nil {
		s.verify()
	}
	instance, report, _ := strings.Cut(string(ev.Quote), " ")
	if report != hex.EncodeToString(data[:]) {
		return policy.Claims{}, &attest.Error{Code: "QUOTE_INVALID", Message: "junk"}
	}
	m := strings.Repeat("1", 96)
	s.mu.Lock()
	machine := s.runsOn[instance]
	s.mu.Unlock()
	return policy.Claims{
		Machine: machine,
		AppID:   workloadApp, InstanceID: instance, ComposeHash: strings.Repeat("c", 64), ComposeText: composeText,
		KeyProviderName: "kms", KeyProviderID: "00ff", MRTD: m, RTMR0: m, RTMR1: m, RTMR2: m, TCB: policy.TCB{Status: "UpToDate"},
	}, nil
}

func (s *small) Slot(context.Context, tokens.Holder) (tokens.Token, error) {
	return tokens.Token{Accessor: fmt.Sprint("w", s.issued.Add(1)), ExpiresAt: s.clock().Add(tokens.TTL)}, nil
}

func (s *small) Rules(tokens.Holder) string { return "rules" }

// noSecrets returns no secrets.
type noSecrets struct{}

func (noSecrets) For(context.Context, *view.View, group.Spec) (secrets.Values, error) {
	return secrets.Values{}, nil
}

func (s *small) Revoke(context.Context, ...string) error { return nil }

func (s *small) Live(_, boot string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live[boot]
}

func (s *small) setLive(boot string, live bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live[boot] = live
}

// silence drops the reports of all Boots.
func (s *small) silence() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.live)
}

// sweep removes spent nonces, as the leader does periodically.
func (s *small) sweep() {
	entries, _, err := s.store.List(context.Background(), store.NoncesPrefix)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range entries {
		if err := s.store.Commit(context.Background(), store.Op{Kind: store.OpDelete, Key: e.Key}); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *small) Spec(name string) (group.Spec, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return group.Spec{Name: name, Workload: group.Workload{Kind: group.WorkloadNone}, Placement: s.placed}, true
}
func (s *small) InitialPeers(string, string) []*controlv1.Peer { return nil }
func (s *small) Admitted()                                     {}
func (s *small) Renewed()                                      {}
func (s *small) Refused(string)                                {}

func (s *small) clock() time.Time { return time.Now().Add(time.Duration(s.now.Load())) }

func instanceOf(slot int) string { return fmt.Sprintf("%040x", slot+1) }

func newSmall(t testing.TB, coordinators, slots int, cluster string) *small {
	t.Helper()
	return newSmallOf(t, coordinators, slots, cluster, "0123456789abcdef0123456789abcdef")
}

// newSmallOf is newSmall with a given cluster ID.
func newSmallOf(t testing.TB, coordinators, slots int, cluster, clusterID string) *small {
	t.Helper()
	s := &small{t: t, store: storetest.NewMemory(), slots: slots, live: map[string]bool{}}
	root, err := keys.Derive(context.Background(), fakeGuest{cluster}, cluster, clusterID)
	if err != nil {
		t.Fatal(err)
	}
	s.views = view.NewWatcher(s.store, slog.New(slog.DiscardHandler))
	m := strings.Repeat("1", 96)
	names := make([]string, coordinators)
	for i := range names {
		names[i] = fmt.Sprint("coordinator-", i)
	}
	for _, name := range names {
		identity, err := keys.NewIdentity(root.CA(), name, true)
		if err != nil {
			t.Fatal(err)
		}
		s.services = append(s.services, New(Config{
			Cluster: cluster, AppID: coordinatorApp, Slot: name, Datacenter: "dc1", Root: root, Identity: identity,
			Images: policy.ImagePolicy{KeyProviderName: "kms", KeyProviderID: "00ff", Images: map[string][]policy.Measurement{osImage: {{MRTD: m, RTMR0: m, RTMR1: m, RTMR2: m}}}},
			Store:  s.store, Views: s.views, Verifier: s, Quoter: s, Issuer: s, Secrets: noSecrets{}, Sessions: s, Directory: s, Metrics: s,
			Coordinators: names, Now: s.clock, Log: slog.New(slog.DiscardHandler),
		}))
	}
	s.seed()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = s.views.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	s.await(func(v *view.View) bool { return len(v.Policies) == slots })
	return s
}

// seed writes the records of a leader: slots pg-0, pg-1, ... bound to instances.
func (s *small) seed() {
	s.t.Helper()
	ctx := context.Background()
	lease, err := s.store.Acquire(ctx, "coordinator-0")
	if err != nil {
		s.t.Fatal(err)
	}
	s.leader = lease
	s.t.Cleanup(func() { _ = lease.Release(ctx) })
	for i := range s.slots {
		s.setPolicy(i, instanceOf(i), revision)
		slot := fmt.Sprint("pg-", i)
		put, err := store.Put(store.SlotKey("pg", slot), group.SlotRecord{Group: "pg", Slot: slot, VIP: "127.50.1.1", PlatformName: "demo-" + slot}, 0)
		if err != nil {
			s.t.Fatal(err)
		}
		if err := s.store.Commit(ctx, put); err != nil {
			s.t.Fatal(err)
		}
	}
}

// setPolicy binds a Slot and allows it one Revision.
func (s *small) setPolicy(i int, instance, allowed string) {
	s.t.Helper()
	slot, text := fmt.Sprint("pg-", i), sha256.Sum256([]byte(composeText))
	before, index, err := store.Read[policy.SlotPolicy](context.Background(), s.store, store.SlotPolicyKey(slot))
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		s.t.Fatal(err)
	}
	hash := strings.Repeat("c", 64)
	if allowed != revision {
		hash = strings.Repeat("d", 64)
	}
	put, err := store.Put(store.SlotPolicyKey(slot), policy.SlotPolicy{
		Group: "pg", Slot: slot, AppID: workloadApp, InstanceID: instance, Epoch: before.Epoch + 1,
		Allowed: []policy.AllowedRevision{{Revision: allowed, ComposeHash: hash, ComposeTextSHA256: hex.EncodeToString(text[:]), OSImage: osImage}},
	}, index)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.store.Commit(context.Background(), put); err != nil {
		s.t.Fatal(err)
	}
}

// await waits until the coordinators' View meets f.
func (s *small) await(f func(*view.View) bool) {
	s.t.Helper()
	limit := time.After(20 * time.Second)
	for {
		v, changed := s.views.Latest()
		if v != nil && f(v) {
			return
		}
		select {
		case <-changed:
		case <-limit:
			s.t.Fatal("the coordinators do not see it")
		}
	}
}

// newcomer is a Boot on its own connection to one coordinator.
type newcomer struct {
	*contact
	slot     int
	bootID   string
	instance string
}

var newcomers atomic.Int64

func (s *small) newcomer(at, slot int) *newcomer {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		s.t.Fatal(err)
	}
	spki, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		s.t.Fatal(err)
	}
	sum := sha256.Sum256(spki)
	n := &newcomer{slot: slot, instance: instanceOf(slot), bootID: hex.EncodeToString(sum[:])}
	n.contact = &contact{bootKey: spki}
	return n.again(s.services[at])
}

// again is the same Boot on a new connection, to any coordinator.
func (n *newcomer) again(at *Service) *newcomer {
	channel := sha256.Sum256(fmt.Append(nil, "channel ", newcomers.Add(1)))
	return &newcomer{slot: n.slot, instance: n.instance, bootID: n.bootID, contact: &contact{Service: at, bootKey: n.bootKey, channel: channel[:]}}
}

func (n *newcomer) challenge(ctx context.Context) (*admissionv1.ChallengeResponse, error) {
	return n.Challenge(ctx, &admissionv1.ChallengeRequest{AppId: workloadApp, InstanceId: n.instance, BootPublicKey: n.bootKey, BootNonce: n.channel})
}

// request is an honest request; change alters the statement before it is quoted.
func (n *newcomer) request(c *admissionv1.ChallengeResponse, change func(*statement.Agent)) *admissionv1.AdmitRequest {
	said := statement.Agent{
		Cluster: c.GetCluster(), ClusterID: n.cfg.Root.ClusterID(), Group: c.GetGroup(), Slot: c.GetSlot(), AppID: workloadApp, InstanceID: n.instance,
		ComposeHash: strings.Repeat("c", 64), BootPublicKey: n.bootKey, Nonce: c.GetNonce(), Exporter: n.channel,
	}
	if change != nil {
		change(&said)
	}
	data := said.ReportData()
	return &admissionv1.AdmitRequest{
		Statement: said.Encode(), Evidence: &admissionv1.Evidence{Quote: []byte(n.instance + " " + hex.EncodeToString(data[:]))},
	}
}

func (n *newcomer) admit(ctx context.Context) error {
	c, err := n.challenge(ctx)
	if err != nil {
		return err
	}
	_, err = n.Admit(ctx, n.request(c, nil))
	return err
}

func (s *small) admission(slot int) policy.Admission {
	s.t.Helper()
	a, _, err := store.Read[policy.Admission](context.Background(), s.store, store.AdmissionKey(fmt.Sprint("pg-", slot)))
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		s.t.Fatal(err)
	}
	return a
}

func (s *small) lease(slot int) view.Boot {
	s.t.Helper()
	lease, err := s.services[0].lease(context.Background(), fmt.Sprint("pg-", slot))
	if err != nil {
		s.t.Fatal(err)
	}
	return lease
}

func (s *small) decisions(slot int) policy.Decisions {
	s.t.Helper()
	d, _, err := store.Read[policy.Decisions](context.Background(), s.store, store.DecisionsKey(fmt.Sprint("pg-", slot)))
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		s.t.Fatal(err)
	}
	return d
}

// endLease gives up the lease of a Slot, as its keeper does when the Boot is silent.
func (s *small) endLease(slot int) {
	s.t.Helper()
	giveUpLease(s.t, s.store, s.lease(slot))
}

func giveUpLease(t testing.TB, records store.Store, lease view.Boot) {
	t.Helper()
	if !lease.Leased() {
		return
	}
	unlock, err := unlockOp(lease, store.LeaseSilent)
	if err == nil {
		err = records.Commit(context.Background(), unlock)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// code returns the code at the start of a refusal.
func code(err error) policy.Code {
	if err == nil {
		return ""
	}
	_, text, _ := strings.Cut(err.Error(), "desc = ")
	first, _, _ := strings.Cut(text, ":")
	return policy.Code(first)
}
