package control

import (
	"encoding/json"
	"testing"
	"time"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/policy"
	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

// cluster is the records of pg-0 and a directory that follows them.
type cluster struct {
	*storetest.Memory
	t         *testing.T
	directory Directory
}

func newCluster(t *testing.T) *cluster {
	c := &cluster{Memory: storetest.NewMemory(), t: t}
	c.put(store.SlotKey("pg", "pg-0"), group.SlotRecord{Group: "pg", Slot: "pg-0", VIP: "127.50.1.1", InstanceID: "i"})
	c.put(store.SlotPolicyKey("pg-0"), policy.SlotPolicy{Group: "pg", Slot: "pg-0", InstanceID: "i"})
	c.admit("old")
	return c
}

func (c *cluster) commit(ops ...store.Op) {
	c.t.Helper()
	if err := c.Commit(c.t.Context(), ops...); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) put(key string, value any) {
	c.t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		c.t.Fatal(err)
	}
	c.commit(store.Op{Kind: store.OpPut, Key: key, Value: text})
}

func (c *cluster) admit(boot string) {
	c.t.Helper()
	c.put(store.AdmissionKey("pg-0"), policy.Admission{Group: "pg", Slot: "pg-0", BootID: boot, InstanceID: "i", AppID: "a", Revision: "r"})
}

// newer writes the record at key with an additional field, as a later version does.
func (c *cluster) newer(key string) {
	c.t.Helper()
	entry, err := c.Get(c.t.Context(), key)
	if err != nil {
		c.t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(entry.Value, &fields); err != nil {
		c.t.Fatal(err)
	}
	fields["from_a_later_version"] = true
	c.put(key, fields)
}

// boot returns the Boot of pg-0 in the peer maps, or "" if there is none.
func (c *cluster) boot() string {
	c.t.Helper()
	v, err := view.Read(c.t.Context(), c)
	if err != nil {
		c.t.Fatal(err)
	}
	c.directory.Update(v, nil, nil)
	peers, _ := c.directory.Peers("coordinator", "coordinator-0")
	for _, p := range peers {
		if p.Slot == "pg-0" {
			return p.BootID
		}
	}
	return ""
}

func (c *cluster) want(boot, when string) {
	c.t.Helper()
	if got := c.boot(); got != boot {
		c.t.Errorf("%s the peer maps name %q, want %q", when, got, boot)
	}
}

// In a rolling upgrade of the coordinators the older ones meet records with fields that they
// refuse. No member is cut off for that.
func TestANewerCoordinatorsRecordsCutNoMemberOff(t *testing.T) {
	for _, key := range []string{store.AdmissionKey("pg-0"), store.SlotKey("pg", "pg-0"), store.SlotPolicyKey("pg-0")} {
		t.Run(key, func(t *testing.T) {
			c := newCluster(t)
			c.want("old", "before the upgrade")
			c.newer(key)
			c.want("old", "while a record cannot be read")
			c.want("old", "still")
			c.commit(store.Op{Kind: store.OpDelete, Key: store.AdmissionKey("pg-0")})
			c.want("", "once the slot has no admission")
			c.commit(store.Op{Kind: store.OpPut, Key: store.AdmissionKey("pg-0"), Value: []byte("garbage")})
			c.want("", "when the next record is unreadable too")
		})
	}
}

// An unreadable record adds no member if it was never read, or if another Boot may be in it.
func TestAnUnreadableRecordAddsNoMember(t *testing.T) {
	c := newCluster(t)
	c.newer(store.AdmissionKey("pg-0"))
	c.want("", "on a coordinator that never read it")

	c = newCluster(t)
	c.want("old", "at first")
	c.newer(store.AdmissionKey("pg-0"))
	session, err := c.CreateSession(t.Context(), "next", 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	lease, err := json.Marshal(store.BootLease{Slot: "pg-0", BootID: "next"})
	if err != nil {
		t.Fatal(err)
	}
	c.commit(store.Op{Kind: store.OpLock, Key: store.BootLeaseKey("pg-0"), Value: lease, Session: session})
	c.want("", "once another boot holds the lease")
	c.commit(store.Op{Kind: store.OpUnlock, Key: store.BootLeaseKey("pg-0"), Value: lease, Session: session})
	c.want("", "when that one's lease has ended")
	c.admit("next")
	c.want("next", "when it can be read again")

	c = newCluster(t)
	c.want("old", "at first")
	c.newer(store.SlotKey("pg", "pg-0"))
	c.commit(store.Op{Kind: store.OpDelete, Key: store.SlotKey("pg", "pg-0")})
	c.want("", "once the slot is gone")
}

// A revocation applies to the last readable records and, without the policy of the Slot, to the
// data of the admission.
func TestRevocationsTakeEffectWithUnreadableRecords(t *testing.T) {
	admission, policyKey := store.AdmissionKey("pg-0"), store.SlotPolicyKey("pg-0")
	for _, revoked := range []string{"instance-i", "revision-r"} {
		for name, unreadable := range map[string][]string{
			"admission": {admission}, "policy": {policyKey}, "both": {admission, policyKey},
		} {
			c := newCluster(t)
			c.put(policyKey, policy.SlotPolicy{Group: "pg", Slot: "pg-0", InstanceID: "i", Allowed: []policy.AllowedRevision{{Revision: "r"}}})
			c.want("old", "at first")
			for _, key := range unreadable {
				c.newer(key)
			}
			c.want("old", name+" unreadable")
			c.put(store.RevocationKey(revoked), map[string]string{})
			c.want("", revoked+" with the "+name+" unreadable")
		}
		// A coordinator that never read the policy.
		c := newCluster(t)
		c.newer(policyKey)
		c.want("old", "without a policy")
		c.put(store.RevocationKey(revoked), map[string]string{})
		c.want("", revoked+" without a policy")
	}
}
