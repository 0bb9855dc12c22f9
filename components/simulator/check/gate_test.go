package check

import (
	"cadre.dev/coordinator/simulated/cloud"
	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
	"cadre.dev/simulator/trace"
)

func gateCases() []cases { return []cases{gateFirstCases(), floorCases()} }

func gateFirstCases() cases {
	const acting = operation.Acting
	ready := func() *run { return start().allowed("pg-0", "old", "new").phases("a", "pg-0", acting) }
	other := func(e *trace.Event) { e.Call.Hash = "hash-of-old" }
	create := kind(operation.Create, operation.PartCreate)
	return cases{
		id: "I5",
		bad: []named{
			{"no policy", start().phases("a", "pg-0", acting).called(cloud.Update, "pg-0")},
			{"the policy does not allow it yet", start().allowed("pg-0", "old").phases("a", "pg-0", acting).called(cloud.Update, "pg-0")},
			{"the policy allows it no more", start().allowed("pg-0", "old", "new").phases("a", "pg-0", operation.Drained).allowed("pg-0", "old").phases("a", "pg-0", acting).called(cloud.Update, "pg-0")},
			{"another Slot's policy allows it", start().allowed("pg-1", "new").phases("a", "pg-0", acting).called(cloud.Update, "pg-0")},
			{"no Operation acts", start().allowed("pg-0", "new").phases("a", "pg-0", operation.Drained).called(cloud.Update, "pg-0")},
			{"allowed, and not what the Operation leads to", ready().called(cloud.Update, "pg-0", other)},
			{"a creation", start().op("a", "pg-0", acting, create).called(cloud.Create, "pg-0")},
			{"narrowed while it boots", ready().called(cloud.Update, "pg-0").phases("a", "pg-0", operation.Booting).allowed("pg-0", "old")},
			{"its policy is removed while it joins", ready().phases("a", "pg-0", operation.Booting, operation.Joining).allowed("pg-0", "new").removed()},
		},
		good: []named{
			{"allowed", ready().called(cloud.Update, "pg-0")},
			{"a creation", start().allowed("pg-0", "new").op("a", "pg-0", acting, create).called(cloud.Create, "pg-0")},
			{"a restart runs what is there", start().op("a", "pg-0", acting, kind(operation.Restart, operation.PartRestart)).called(cloud.Restart, "pg-0")},
			{"the old one goes while it boots", ready().called(cloud.Update, "pg-0").phases("a", "pg-0", operation.Booting).allowed("pg-0", "new")},
			{"narrowed after the end", ready().phases("a", "pg-0", operation.Booting, operation.Done).allowed("pg-0", "old")},
			{"narrowed before anything was done", start().allowed("pg-0", "old", "new").phases("a", "pg-0", operation.Draining).allowed("pg-0", "old")},
		},
	}
}

func floorCases() cases {
	const acting = operation.Acting
	at := func(n uint64) func(*policy.SlotPolicy) { return func(p *policy.SlotPolicy) { p.Floor = n } }
	return cases{
		id: "I8",
		bad: []named{
			{"it acts below the floor", start().allowed("pg-0", "old", "new").gate(at(3)).phases("a", "pg-0", acting)},
			{"back to what is below the floor", start().allowed("pg-0", "old", "new").gate(at(2)).op("a", "pg-0", acting, func(op *operation.Operation) { op.To = "old" })},
			{"raised before the call", start().allowed("pg-0", "old", "new").phases("a", "pg-0", acting).allowed("pg-0", "old", "new").gate(at(3)).called(cloud.Update, "pg-0")},
			{"created below the floor", start().allowed("pg-0", "new").gate(at(2)).op("a", "pg-0", acting, kind(operation.Create, operation.PartCreate))},
			{"not numbered is below every floor", start().allowed("pg-0", "new").gate(func(p *policy.SlotPolicy) { p.Floor, p.Allowed[0].Number = 1, 0 }).phases("a", "pg-0", acting)},
		},
		good: []named{
			{"at the floor", start().allowed("pg-0", "old", "new").gate(at(2)).phases("a", "pg-0", acting).called(cloud.Update, "pg-0")},
			{"no floor", start().allowed("pg-0", "old", "new").phases("a", "pg-0", acting).called(cloud.Update, "pg-0")},
			{"a removal", start().allowed("pg-0", "old", "new").gate(at(3)).op("a", "pg-0", acting, kind(operation.Delete, operation.PartDelete)).called(cloud.Delete, "pg-0")},
			{"raised after the call", start().allowed("pg-0", "old", "new").phases("a", "pg-0", acting).called(cloud.Update, "pg-0").allowed("pg-0", "old", "new").gate(at(3))},
		},
	}
}
