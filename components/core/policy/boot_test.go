package policy

import (
	"strings"
	"testing"
)

// TestKeysFollowTheSlotsPolicy: a key service gives keys where an admission could follow, and
// every other request fails closed with its reason.
func TestKeysFollowTheSlotsPolicy(t *testing.T) {
	hex := func(c string, n int) string { return strings.Repeat(c, n) }
	app, own, other := hex("a", 40), hex("1", 40), hex("2", 40)
	was, is := hex("b", 64), hex("c", 64)
	slot := func(change func(*BootSlot)) []BootSlot {
		s := BootSlot{Policy: SlotPolicy{Group: "pg", Slot: "pg-0", AppID: app, InstanceID: own, Allowed: []AllowedRevision{
			{Revision: "old", ComposeHash: was, Number: 1}, {Revision: "new", ComposeHash: is, Number: 2, Approved: true},
		}}}
		change(&s)
		return []BootSlot{s}
	}
	same := func(*BootSlot) {}
	revoked := func(kind RevocationKind, id string) func(*BootSlot) {
		return func(s *BootSlot) { s.Policy.Revoked = []Revocation{{Kind: kind, ID: id, Reason: "leaked"}} }
	}
	ask := Boot{AppID: app, InstanceID: own, ComposeHash: is, KeyProviderID: "30"}
	with := func(change func(*Boot)) Boot {
		b := ask
		change(&b)
		return b
	}
	for name, c := range map[string]struct {
		slots []BootSlot
		boot  Boot
		want  Code   // "": allowed
		says  string // a part of the message, or the Revision
	}{
		"the target of a step":                      {slot(same), ask, "", "new"},
		"the revision before, while a step is open": {slot(same), with(func(b *Boot) { b.ComposeHash = was }), "", "old"},
		"in other letters, with 0x":                 {slot(same), with(func(b *Boot) { b.ComposeHash = "0x" + strings.ToUpper(is) }), "", "new"},
		"another hash":                              {slot(same), with(func(b *Boot) { b.ComposeHash = hex("d", 64) }), CodeRevisionNotAllowed, "slot pg-0"},
		"no hash":                                   {slot(same), with(func(b *Boot) { b.ComposeHash = "" }), CodeBadRequest, "compose_hash"},
		"no app":                                    {slot(same), with(func(b *Boot) { b.AppID = "" }), CodeBadRequest, "app_id"},
		"no instance":                               {slot(same), with(func(b *Boot) { b.InstanceID = "" }), CodeInstanceMismatch, "instance_id"},
		"an app of no group":                        {nil, ask, CodeSlotUnknown, "no slot"},
		"a slot of another app":                     {slot(func(s *BootSlot) { s.Policy.AppID = hex("e", 40) }), ask, CodeInstanceMismatch, "no slot waits"},
		"a copy of the app":                         {slot(same), with(func(b *Boot) { b.InstanceID = other }), CodeInstanceMismatch, "no slot waits"},
		"the first boot of a slot":                  {slot(func(s *BootSlot) { s.Policy.InstanceID = "" }), with(func(b *Boot) { b.InstanceID = other }), "", "new"},
		"the first boot of a replacement":           {slot(func(s *BootSlot) { s.Making = true }), with(func(b *Boot) { b.InstanceID = other }), "", "new"},
		"a first boot with another hash":            {slot(func(s *BootSlot) { s.Policy.InstanceID = "" }), with(func(b *Boot) { b.InstanceID, b.ComposeHash = other, hex("d", 64) }), CodeRevisionNotAllowed, "waits for its first"},
		"a revoked revision":                        {slot(revoked(RevokedRevision, "new")), ask, CodeRevisionNotAllowed, "revoked: leaked"},
		"a revoked compose hash":                    {slot(revoked(RevokedRevision, is)), ask, CodeRevisionNotAllowed, "revoked: leaked"},
		"a revoked instance":                        {slot(revoked(RevokedInstance, own)), ask, CodePeerRevoked, "leaked"},
		"a revoked key service":                     {slot(revoked(RevokedKeyProvider, "30")), ask, CodeKMSPolicyMismatch, "leaked"},
		"below the floor":                           {slot(func(s *BootSlot) { s.Policy.Floor = 2 }), with(func(b *Boot) { b.ComposeHash = was }), CodeRevisionBelowFloor, "floor #2"},
		"not approved":                              {slot(func(s *BootSlot) { s.Policy.RequireApproval = true }), with(func(b *Boot) { b.ComposeHash = was }), CodeRevisionNotApproved, "old"},
		"approved":                                  {slot(func(s *BootSlot) { s.Policy.RequireApproval = true }), ask, "", "new"},
		"a slot without revisions":                  {slot(func(s *BootSlot) { s.Policy.Allowed = nil }), ask, CodeRevisionNotAllowed, "pg-0"},
	} {
		d := MayBoot(c.slots, c.boot)
		if d.Code != c.want || d.Allowed != (c.want == "") || !strings.Contains(d.Message+d.Revision, c.says) {
			t.Errorf("%s: %+v, want %q with %q", name, d, c.want, c.says)
		}
	}
}

// TestABoundInstanceIsJudgedByItsOwnSlot: another Slot of the app may allow a hash that this Slot refuses.
func TestABoundInstanceIsJudgedByItsOwnSlot(t *testing.T) {
	app, own, hash := strings.Repeat("a", 40), strings.Repeat("1", 40), strings.Repeat("c", 64)
	slots := []BootSlot{
		{Policy: SlotPolicy{Slot: "pg-1", AppID: app, Allowed: []AllowedRevision{{Revision: "new", ComposeHash: hash}}}},
		{Policy: SlotPolicy{Slot: "pg-0", AppID: app, InstanceID: own, Allowed: []AllowedRevision{{Revision: "old", ComposeHash: strings.Repeat("b", 64)}}}},
	}
	if d := MayBoot(slots, Boot{AppID: app, InstanceID: own, ComposeHash: hash}); d.Allowed || !strings.Contains(d.Message, "pg-0") {
		t.Errorf("%+v", d)
	}
}
