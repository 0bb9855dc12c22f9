package world

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"cadre.dev/attest/attestsim"
	"cadre.dev/core/appcompose"
	"cadre.dev/core/group"
	"cadre.dev/core/policy"
	"cadre.dev/store"
)

const (
	// Cluster is the name of the cluster, and Domain its gateway's domain.
	Cluster = "bench"
	// ClusterID is the cluster ID of all coordinators.
	ClusterID = "0123456789abcdef0123456789abcdef"
	Domain    = "gw.bench"
	// CoordinatorApp is the application of the coordinators.
	CoordinatorApp = "cccccccccccccccccccccccccccccccccccccccc"
	// OSImage is the image of all machines.
	OSImage = "dstack-0.5.11"
	// PerGroup is how many Slots a group has.
	PerGroup = 5
)

// Slot is one place of the cluster with the seed of the disk of its CVM.
type Slot struct {
	Group, Name string
	Ordinal     int
	AppID, VIP  string
	Seed        []byte
	// Compose is the measured document of its CVM; nil: AppCompose of the group.
	Compose []byte
}

// AppCompose is the measured document of the Slot's CVM.
func (s Slot) AppCompose() []byte {
	if s.Compose != nil {
		return s.Compose
	}
	return AppCompose(s.Group)
}

// Slots makes n of them, in groups of PerGroup.
func Slots(n int) []Slot {
	out := make([]Slot, n)
	for i := range out {
		name := fmt.Sprintf("g%03d", i/PerGroup)
		app := sha256.Sum256([]byte(name))
		seed := sha256.Sum256(fmt.Appendf(nil, "disk %d", i))
		out[i] = Slot{
			Group: name, Name: fmt.Sprintf("%s-%d", name, i%PerGroup), Ordinal: i % PerGroup,
			AppID: hex.EncodeToString(app[:20]), VIP: fmt.Sprintf("127.50.%d.%d", 1+i/250, 1+i%250), Seed: seed[:20],
		}
	}
	return out
}

// Boot starts the simulated CVM of a Slot.
func (s Slot) Boot(cloud *attestsim.Cloud) (*attestsim.Guest, error) {
	return cloud.Boot(attestsim.BootConfig{AppID: s.AppID, AppCompose: s.AppCompose(), InstanceIDSeed: s.Seed, OSImage: OSImage})
}

// AppCompose is the measured document of a group's CVMs.
func AppCompose(groupName string) []byte {
	raw, err := json.Marshal(map[string]any{
		"manifest_version": 2, "name": groupName, "runner": "docker-compose", "docker_compose_file": compose(groupName),
		"kms_enabled": true, "key_provider": "kms", "gateway_enabled": true, "secure_time": true, "init_script": appcompose.InitScript,
	})
	if err != nil {
		panic(err) // of texts and numbers only
	}
	return raw
}

// compose is a file of ordinary size.
func compose(groupName string) string {
	var b strings.Builder
	b.WriteString("services:\n")
	for n, service := range []string{"postgres", "pgbouncer", "exporter"} {
		fmt.Fprintf(&b, "  %s:\n    image: registry.example.org/%s/%s@sha256:%064x\n    restart: unless-stopped\n    environment:\n", service, groupName, service, n+1)
		for v := range 12 {
			fmt.Fprintf(&b, "      SETTING_%02d: value-of-setting-%02d\n", v, v)
		}
		b.WriteString("    volumes:\n      - data:/var/lib/data\n      - mesh:/run/mesh:ro\n")
	}
	b.WriteString("volumes:\n  data: {}\n  mesh: {}\n")
	return b.String()
}

// spec is an operator's spec of a group.
func spec(groupName string) group.Spec {
	return group.Spec{
		Name: groupName, Platform: "phala", Replicas: PerGroup,
		Template: group.Template{Compose: compose(groupName), InstanceType: "tdx.small", OSImage: OSImage},
		Workload: group.Workload{Kind: group.WorkloadPatroni},
	}
}

// batch is how many records go into one transaction: specs are of some KiB.
const batch = 30

// Record writes the records of operators and of a leader once all CVMs exist.
func Record(ctx context.Context, s store.Store, slots []Slot, instances []string) error {
	var ops []store.Op
	commit := func(least int) error {
		if len(ops) < least {
			return nil
		}
		err := s.Commit(ctx, ops...)
		ops = ops[:0]
		return err
	}
	for i, slot := range slots {
		made, err := records(slot, instances[i])
		if err != nil {
			return err
		}
		ops = append(ops, made...)
		if err := commit(batch); err != nil {
			return fmt.Errorf("write records: %w", err)
		}
	}
	if err := commit(1); err != nil {
		return fmt.Errorf("write records: %w", err)
	}
	return nil
}

func records(slot Slot, instance string) ([]store.Op, error) {
	wanted := spec(slot.Group)
	revision := wanted.Revision()
	composeHash, text := sha256.Sum256(AppCompose(slot.Group)), sha256.Sum256([]byte(wanted.Template.Compose))
	var ops []store.Op
	if slot.Ordinal == 0 {
		raw, err := json.Marshal(wanted)
		if err != nil {
			return nil, err
		}
		decoded, err := group.Decode(raw)
		if err != nil {
			return nil, err
		}
		decoded.Normalize()
		if err := group.Validate(decoded); err != nil {
			return nil, err
		}
		ops = append(ops, store.Op{Kind: store.OpPut, Key: store.GroupSpecKey(slot.Group), Value: raw})
	}
	allowed, err := store.Put(store.SlotPolicyKey(slot.Name), policy.SlotPolicy{
		Group: slot.Group, Slot: slot.Name, AppID: slot.AppID, InstanceID: instance, Epoch: 1,
		Allowed: []policy.AllowedRevision{{
			Revision: revision, ComposeHash: hex.EncodeToString(composeHash[:]), ComposeTextSHA256: hex.EncodeToString(text[:]), OSImage: OSImage, Number: 1,
		}},
	}, 0)
	if err != nil {
		return nil, err
	}
	bound, err := store.Put(store.SlotKey(slot.Group, slot.Name), group.SlotRecord{
		Group: slot.Group, Slot: slot.Name, Ordinal: slot.Ordinal, VIP: slot.VIP, AppID: slot.AppID, InstanceID: instance,
		PlatformName: Cluster + "-" + slot.Name, Assigned: revision,
	}, 0)
	return append(ops, allowed, bound), err
}

// EndLeases leaves the leases of all Boots like keepers that no longer hear a Boot, also of keepers
// that have ended, and removes the spent nonces, as the leader does in time.
func EndLeases(ctx context.Context, s *store.Consul) error {
	leases, _, err := s.List(ctx, store.BootLeasePrefix)
	if err != nil {
		return err
	}
	spent, _, err := s.List(ctx, store.NoncesPrefix)
	if err != nil {
		return err
	}
	own, err := s.CreateSession(ctx, "bench", time.Minute)
	if err != nil {
		return err
	}
	var take, free, forget []store.Op
	for _, lease := range leases {
		var value store.BootLease
		if err := json.Unmarshal(lease.Value, &value); err != nil {
			return err
		}
		value.State = store.LeaseSilent
		text, err := json.Marshal(value)
		if err != nil {
			return err
		}
		session := lease.Session
		if session == "" {
			session = own
			take = append(take, store.Op{Kind: store.OpLock, Key: lease.Key, Value: text, Session: own})
		}
		free = append(free, store.Op{Kind: store.OpUnlock, Key: lease.Key, Value: text, Session: session})
	}
	for _, nonce := range spent {
		forget = append(forget, store.Op{Kind: store.OpDelete, Key: nonce.Key})
	}
	for _, all := range [][]store.Op{take, free, forget} {
		cuts := slices.Collect(slices.Chunk(all, store.MaxTxnOps))
		if err := Each(16, len(cuts), func(i int) error { return s.Commit(ctx, cuts[i]...) }); err != nil {
			return err
		}
	}
	return s.DestroySession(ctx, own)
}
