package check

import (
	"cadre.dev/core/group"
	"cadre.dev/core/policy"
)

func admissionCases() []cases { return []cases{soundCases(), holderCases()} }

func soundCases() cases {
	open := func() *run { return start().allowed("pg-0", "old", "new") }
	approval := func(p *policy.SlotPolicy) { p.RequireApproval = true }
	approved := func(p *policy.SlotPolicy) { p.RequireApproval, p.Allowed[1].Approved = true, true }
	revoked := func(p *policy.SlotPolicy) {
		p.Revoked = []policy.Revocation{{Kind: policy.RevokedRevision, ID: "new", Reason: "bad"}}
	}
	return cases{
		id: "I9",
		bad: []named{
			{"no policy", start().admitted("pg-0", "b1", "new", 1)},
			{"a Revision that is not allowed", open().admitted("pg-0", "b1", "other", 1)},
			{"a Revision that is allowed no more", open().allowed("pg-0", "old").admitted("pg-0", "b1", "new", 1)},
			{"nobody is bound", open().gate(func(p *policy.SlotPolicy) { p.InstanceID = "" }).admitted("pg-0", "b1", "new", 1)},
			{"another instance", open().admitted("pg-0", "b1", "new", 1).boot(func(a *policy.Admission) { a.InstanceID = "other" })},
			{"another app", open().admitted("pg-0", "b1", "new", 1).boot(func(a *policy.Admission) { a.AppID = "other" })},
			{"another hash", open().admitted("pg-0", "b1", "new", 1).boot(func(a *policy.Admission) { a.Claims.ComposeHash = "hash-of-old" })},
			{"below the floor", open().gate(func(p *policy.SlotPolicy) { p.Floor = 2 }).admitted("pg-0", "b1", "old", 1)},
			{"not approved", open().gate(approval).admitted("pg-0", "b1", "new", 1)},
			{"revoked", open().gate(revoked).admitted("pg-0", "b1", "new", 1)},
			{"judged by what was in force before", open().gate(func(p *policy.SlotPolicy) { p.Epoch = 2 }).admitted("pg-0", "b1", "new", 1)},
			{"the same Boot after its record went", open().admitted("pg-0", "b1", "new", 1).admitted("pg-0", "b1", "new", 1).removed().allowed("pg-0", "old").admitted("pg-0", "b1", "new", 2)},
		},
		good: []named{
			{"allowed", open().admitted("pg-0", "b1", "new", 1)},
			{"approved", open().gate(approved).admitted("pg-0", "b1", "new", 1)},
			{"at the floor", open().gate(func(p *policy.SlotPolicy) { p.Floor = 2 }).admitted("pg-0", "b1", "new", 1)},
			{"the old one, while it is allowed", open().admitted("pg-0", "b1", "old", 1).admitted("pg-0", "b2", "new", 2)},
			{"more is written about the same Boot", open().admitted("pg-0", "b1", "new", 1).allowed("pg-0", "old").admitted("pg-0", "b1", "new", 1)},
			{"it ends", open().admitted("pg-0", "b1", "new", 1).allowed("pg-0", "old").admitted("pg-0", "b1", "new", 1).removed()},
		},
	}
}

func holderCases() cases {
	return cases{
		id: "I10",
		bad: []named{
			{"two Boots serve", start().servesAs("pg-0", "b1").servesAs("pg-0", "b2")},
			{"a Boot takes it with the same generation", start().admitted("pg-0", "b1", "new", 1).admitted("pg-0", "b2", "new", 1)},
			{"a Boot takes it with a lesser generation", start().admitted("pg-0", "b1", "new", 3).admitted("pg-0", "b2", "new", 2)},
			{"a Boot serves that lost it", start().admitted("pg-0", "b1", "new", 1).admitted("pg-0", "b2", "new", 2).servesAs("pg-0", "b1")},
		},
		good: []named{
			{"one after the other", start().admitted("pg-0", "boot-1-of-pg-0", "old", 1).serves("pg-0").stops("pg-0").admitted("pg-0", "b2", "new", 2).servesAs("pg-0", "b2")},
			{"the same Boot is renewed", start().admitted("pg-0", "b1", "new", 1).admitted("pg-0", "b1", "new", 1)},
			{"two Slots", start().servesAs("pg-0", "b1").servesAs("pg-1", "b2")},
			{"the same Boot is told of twice", start().servesAs("pg-0", "b1").servesAs("pg-0", "b1")},
		},
	}
}

func monotonicCases() []cases {
	const ended = "DONE"
	vm := func(n uint64) func(*group.SlotRecord) {
		return func(r *group.SlotRecord) { r.Incarnation = n }
	}
	epoch := func(n uint64) func(*policy.SlotPolicy) { return func(p *policy.SlotPolicy) { p.Epoch = n } }
	back := func() *run {
		r := start().allowed("pg-0", "new").allowed("pg-0", "new")
		r.index = 0
		return r.allowed("pg-0", "new")
	}
	return []cases{{
		id: "I21",
		bad: []named{
			{"the count of CVMs", start().binds("pg-0").binding(vm(2)).binds("pg-0").binding(vm(1))},
			{"the generation", start().admitted("pg-0", "b1", "new", 5).admitted("pg-0", "b2", "new", 4)},
			{"the generation after an eviction", start().admitted("pg-0", "b1", "new", 5).admitted("pg-0", "b1", "new", 5).removed().admitted("pg-0", "b2", "new", 1)},
			{"the epoch", start().allowed("pg-0", "new").gate(epoch(3)).allowed("pg-0", "new").gate(epoch(2))},
			{"the index", back()},
			{"the Term of an Operation", start().lead("coordinator-0", 2).phases("a", "pg-0", "DRAINING").lead("coordinator-1", 1).phases("a", "pg-0", "DRAINED")},
			{"the calls of an Operation", start().phases("a", "pg-0", "ACTING", "ACTING").op("a", "pg-0", "BOOTING", func(op *opRecord) { op.Call.Number = 1 })},
			{"what ended goes on", start().phases("a", "pg-0", ended, "JOINING")},
			{"what ended ends otherwise", start().phases("a", "pg-0", ended, "FAILED")},
		},
		good: []named{
			{"all grow", start().binds("pg-0").binds("pg-0").binding(vm(1)).admitted("pg-0", "b1", "new", 1).admitted("pg-0", "b2", "new", 2).
				allowed("pg-0", "new").allowed("pg-0", "new").gate(epoch(2)).phases("a", "pg-0", "ACTING", "ACTING", "DONE", "DONE")},
			{"a Slot that is made anew", start().binds("pg-0").binding(vm(2)).admitted("pg-0", "b1", "new", 5).allowed("pg-0", "new").gate(epoch(3)).
				binds("pg-0").binding(vm(2)).removed().allowed("pg-0", "new").gate(epoch(3)).removed().admitted("pg-0", "b1", "new", 5).removed().
				binds("pg-0").allowed("pg-0", "new").admitted("pg-0", "b2", "new", 1)},
		},
	}}
}
