package rollout

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/core/address"
	"cadre.dev/core/appcompose"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
)

// lose removes the records of ordinal i; its CVM runs on.
func (f *fixture) lose(i int) *fixture {
	r := f.rec.Slots[i]
	f.rec.Slots[i] = group.SlotRecord{Group: r.Group, Slot: r.Slot, Ordinal: r.Ordinal, VIP: r.VIP, PlatformName: r.PlatformName}
	f.obs.Slots[i].Admission, f.obs.Slots[i].Report = nil, nil
	return f
}

// TestACVMThatNoRecordBindsIsLeftAlone: the planner creates, updates and restarts nothing in a Slot whose records
// are lost while its CVM runs. It does not bind the CVM by its name alone.
func TestACVMThatNoRecordBindsIsLeftAlone(t *testing.T) {
	for name, disturb := range map[string]func(f *fixture){
		"at rest":            func(*fixture) {},
		"in a rollout":       func(f *fixture) { f.want("B") },
		"a restart is asked": func(f *fixture) { f.asks("db-1", "q") },
	} {
		f := newFixture(3, "none").lose(1)
		disturb(f)
		p := f.plan()
		for _, a := range p.Actions {
			if a.Slot == "db-1" && a.Execute {
				t.Errorf("%s: %s of db-1 begins", name, a.Kind)
			}
		}
		if r := p.Slots[1]; r.VMUUID != "" || r.InstanceID != "" {
			t.Errorf("%s: bound to %s %s", name, r.VMUUID, r.InstanceID)
		}
		if got := p.Status.Instances[1].Reason; !strings.Contains(got, "cadre group adopt db") {
			t.Errorf("%s: reason %q", name, got)
		}
	}
	wantHeld(t, newFixture(3, "none").lose(1).want("B").plan(), "db-1", HoldUnmanagedInstance)
}

// TestACVMThatOurCallMadeIsBound: the planner binds the CVM even if the outcome of the Slot's call is unknown. It
// does not bind a CVM that differs from the CVM in the call's answer.
func TestACVMThatOurCallMadeIsBound(t *testing.T) {
	for name, c := range map[string]struct {
		op   operation.Operation
		want string
	}{
		"a create whose answer was lost": {operation.Operation{Kind: operation.Create, Phase: operation.Acting, Call: operation.Call{Number: 1}}, "vm-db-1"},
		"a create that was answered":     {operation.Operation{Kind: operation.Create, Phase: operation.Booting, Call: operation.Call{Number: 1}, CVM: operation.CVM{VMUUID: "vm-db-1"}}, "vm-db-1"},
		"a create of another CVM":        {operation.Operation{Kind: operation.Create, Phase: operation.Booting, Call: operation.Call{Number: 1}, CVM: operation.CVM{VMUUID: "vm-x"}}, ""},
		"a create before its call":       {operation.Operation{Kind: operation.Create, Phase: operation.Drained}, ""},
		"a restart":                      {operation.Operation{Kind: operation.Restart, Phase: operation.Acting, Call: operation.Call{Number: 1}}, ""},
	} {
		f := newFixture(3, "none").lose(1)
		op := c.op
		op.ID, op.Group, op.Slot, op.Rollout = "o", "db", "db-1", f.rec.Rollout.ID
		f.rec.Operations = append(f.rec.Operations, op)
		if got := f.plan().Slots[1].VMUUID; got != c.want {
			t.Errorf("%s: bound to %q, want %q", name, got, c.want)
		}
	}
}

// TestAnAdoptedCVMKeepsItsDocument: another client wrote the document's bytes, so its hash differs from Cadre's. A
// rollout to the Revision that the CVM runs has no step for it, neither before its first admission nor while it is
// not ready.
func TestAnAdoptedCVMKeepsItsDocument(t *testing.T) {
	for allowed, updated := range map[string]bool{"hash-of-another-client": false, hashOf("A"): true} {
		for name, disturb := range map[string]func(f *fixture){
			"before its admission": func(f *fixture) { f.obs.Slots[1].Admission, f.obs.Slots[1].Report = nil, nil },
			"not ready":            func(f *fixture) { f.sick(1) },
		} {
			f := newFixture(3, "none").rolling()
			f.obs.Slots[1].Instance.ComposeHash = "hash-of-another-client"
			f.rec.Policies = map[string]policy.SlotPolicy{"db-1": {
				Slot: "db-1", InstanceID: f.rec.Slots[1].InstanceID, Allowed: []policy.AllowedRevision{{Revision: f.spec.Revision(), ComposeHash: allowed}},
			}}
			disturb(f)
			got := slices.ContainsFunc(f.plan().Actions, func(a Action) bool { return a.Slot == "db-1" && a.Kind == operation.Update })
			if got != updated {
				t.Errorf("%s, allowed as %s: updated %v, want %v", name, allowed, got, updated)
			}
		}
	}
}

// TestACVMThatThePolicyNamesIsBound: either of the two bindings is sufficient.
func TestACVMThatThePolicyNamesIsBound(t *testing.T) {
	for instance, want := range map[string]string{"i-db-1": "vm-db-1", "i-other": ""} {
		f := newFixture(3, "none").lose(1)
		f.rec.Policies = map[string]policy.SlotPolicy{"db-1": {Slot: "db-1", InstanceID: instance}}
		if got := f.plan().Slots[1].VMUUID; got != want {
			t.Errorf("the policy names %s: bound to %q, want %q", instance, got, want)
		}
	}
}

const provenHash = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// adoption is the input for db-1, whose records are lost.
func adoption() AdoptionFacts {
	s := testSpec(3, "none")
	m := policy.Measurement{MRTD: strings.Repeat("1", 96), RTMR0: strings.Repeat("2", 96), RTMR1: strings.Repeat("3", 96), RTMR2: strings.Repeat("4", 96)}
	proof, ok := policy.NewProof("db", "db-1", "boot", "127.50.4.2", policy.Claims{
		AppID: s.AppID, InstanceID: "i-1", ComposeHash: provenHash, ComposeText: s.Template.Compose, KeyProviderName: "kms", KeyProviderID: "ab",
		MRTD: m.MRTD, RTMR0: m.RTMR0, RTMR1: m.RTMR1, RTMR2: m.RTMR2, TCB: policy.TCB{Status: "UpToDate", ValidUntil: epoch.Add(time.Hour)},
	})
	if !ok {
		panic("no proof")
	}
	proof.At = epoch
	return AdoptionFacts{
		Spec: s, Record: group.SlotRecord{Group: "db", Slot: "db-1", Ordinal: 1, PlatformName: "c-db-1", VIP: "127.50.1.2"}, AppID: s.AppID,
		Instance: &Instance{VMUUID: "vm-1", InstanceID: "i-1", AppID: s.AppID, Status: "running"}, Proof: &proof,
		Images: policy.ImagePolicy{Images: map[string][]policy.Measurement{s.Template.OSImage: {m}}, KeyProviderName: "kms", KeyProviderID: "ab"},
		VIPs:   map[string]string{"web-0": "127.50.1.1", "db-0": "127.50.4.1", "db-1": "127.50.4.2", "db-2": "none"},
	}
}

func TestAMemberIsAdoptedAtItsAttestedRevision(t *testing.T) {
	f := adoption()
	a, ok := Adoption(f, epoch)
	if !ok || a.Missing != "" || a.Revision != f.Spec.Revision() || a.InstanceID != "i-1" || a.ComposeHash != provenHash || a.VMUUID != "vm-1" || a.VIP != "127.50.4.2" {
		t.Fatalf("%+v", a)
	}
	record, sp := a.Bind(f.Record, policy.SlotPolicy{Epoch: 3})
	if record.InstanceID != "i-1" || record.VMUUID != "vm-1" || record.AppID != f.AppID || record.Assigned != a.Revision || record.VIP != "127.50.4.2" || record.PlatformName != "c-db-1" {
		t.Errorf("record %+v", record)
	}
	if d := policy.AppraiseProof(sp, f.Images, *f.Proof, epoch); !d.Allowed || d.Revision != a.Revision || len(sp.Allowed) != 1 || sp.Epoch != 3 {
		t.Errorf("%+v: %+v", sp, d)
	}
}

// TestAdoptionNamesTheMissingCondition: each row breaks one condition.
func TestAdoptionNamesTheMissingCondition(t *testing.T) {
	for want, disturb := range map[string]func(f *AdoptionFacts){
		"under way":                            func(f *AdoptionFacts) { f.Open = &operation.Operation{ID: "o", Phase: operation.Acting} },
		"lists no CVM":                         func(f *AdoptionFacts) { f.Instance = nil },
		"2 CVMs carry its name":                func(f *AdoptionFacts) { f.Duplicates = 1 },
		"the platform says stopped":            func(f *AdoptionFacts) { f.Instance.Status = "stopped" },
		"attested nothing yet":                 func(f *AdoptionFacts) { f.Proof = nil },
		"attested last":                        func(f *AdoptionFacts) { f.Proof.At = epoch.Add(-time.Hour) },
		"and instance i-1 attested":            func(f *AdoptionFacts) { f.Instance.InstanceID = "i-2" },
		"the group's is":                       func(f *AdoptionFacts) { f.AppID = "b" },
		"COMPOSE_FORBIDDEN":                    func(f *AdoptionFacts) { f.Proof.ComposeTextSHA256 = hashOf("x") },
		"app-compose.json: odd":                func(f *AdoptionFacts) { f.Proof.AppComposeProblem = "odd" },
		"LD_PRELOAD":                           func(f *AdoptionFacts) { f.Proof.AllowedEnvs = []string{"LD_PRELOAD"} },
		"MEASUREMENT_MISMATCH":                 func(f *AdoptionFacts) { f.Proof.Claims.MRTD = "0" },
		"KMS_POLICY_MISMATCH":                  func(f *AdoptionFacts) { f.Proof.Claims.KeyProviderID = "cd" },
		"TEE_TYPE_FORBIDDEN":                   func(f *AdoptionFacts) { f.Proof.Claims.Simulated = true },
		"REVISION_NOT_APPROVED":                func(f *AdoptionFacts) { f.Policy.RequireApproval = true },
		"PEER_REVOKED":                         func(f *AdoptionFacts) { f.Revoked = []policy.Revocation{{Kind: policy.RevokedInstance, ID: "i-1"}} },
		"which no slot db-1 is":                func(f *AdoptionFacts) { f.Proof.VIP = "127.50.4.3" },
		"does not go with 127.50.1.1 of web-0": func(f *AdoptionFacts) { f.Proof.VIP, f.VIPs = "127.50.1.2", map[string]string{"web-0": "127.50.1.1"} },
		"does not go with 127.50.4.2 of db-2":  func(f *AdoptionFacts) { f.VIPs = map[string]string{"db-2": "127.50.4.2"} },
		"does not go with 127.32.0.1 of web-0": func(f *AdoptionFacts) { f.Proof.VIP, f.VIPs = "127.32.0.2", map[string]string{"web-0": "127.32.0.1"} },
		"lies in 127.32.0.0/28 of group web": func(f *AdoptionFacts) {
			f.Proof.VIP = "127.32.0.2"
			f.Addresses = map[string]address.Given{"web": {Blocks: []address.Block{{First: -1, Net: netip.MustParsePrefix("127.32.0.0/28")}}}}
		},
	} {
		f := adoption()
		i, p := *f.Instance, *f.Proof
		f.Instance, f.Proof = &i, &p
		disturb(&f)
		if a, ok := Adoption(f, epoch); !ok || !strings.Contains(a.Missing, want) {
			t.Errorf("%s: %v %q", want, ok, a.Missing)
		}
	}
}

// TestACVMThatAnotherClientMadeIsAdopted: Cadre adopts a running app that measures the group's compose text, if its
// document has no field that the closed list refuses. The document's formatting does not matter. Cadre never had a
// record of the app.
func TestACVMThatAnotherClientMadeIsAdopted(t *testing.T) {
	attested := func(change func(doc map[string]any)) (AdoptionFacts, string) {
		f := adoption()
		doc := map[string]any{
			"manifest_version": 2, "runner": "docker-compose", "name": "shop", "docker_compose_file": f.Spec.Template.Compose,
			"kms_enabled": true, "gateway_enabled": true, "public_logs": false, "public_sysinfo": true, "public_tcbinfo": true, "secure_time": true,
			"init_script": appcompose.InitScript,
		}
		change(doc)
		raw, err := json.MarshalIndent(doc, "", "    ")
		if err != nil {
			t.Fatal(err)
		}
		judged, problems := appcompose.Judge(raw, appcompose.Rules{})
		claims := f.Proof.Claims
		claims.ComposeHash, claims.ComposeText, claims.AllowedEnvs, claims.AppComposeProblem = appcompose.Hash(raw), judged.Compose, judged.Envs, appcompose.Texts(problems)
		proof, ok := policy.NewProof("db", "db-1", "boot", "", claims)
		if !ok {
			t.Fatal("no proof")
		}
		proof.At = epoch
		f.Proof = &proof
		return f, claims.ComposeHash
	}
	f, hash := attested(func(map[string]any) {})
	rendered, err := appcompose.Render("db-1", f.Spec.Template.Compose, nil)
	if err != nil || appcompose.Hash(rendered) == hash {
		t.Fatalf("the document is what Cadre renders: %v", err)
	}
	a, ok := Adoption(f, epoch)
	if !ok || a.Missing != "" || a.Revision != f.Spec.Revision() || a.ComposeHash != hash {
		t.Errorf("%+v", a)
	}
	for want, change := range map[string]func(doc map[string]any){
		"public_logs":       func(doc map[string]any) { doc["public_logs"] = true },
		"secure_time":       func(doc map[string]any) { delete(doc, "secure_time") },
		"pre_launch_script": func(doc map[string]any) { doc["pre_launch_script"] = "#!/bin/sh" },
		"COMPOSE_FORBIDDEN": func(doc map[string]any) { doc["docker_compose_file"] = compose("of another app") },
		"API_KEY":           func(doc map[string]any) { doc["allowed_envs"] = []string{"API_KEY"} },
	} {
		f, _ := attested(change)
		if a, ok := Adoption(f, epoch); !ok || !strings.Contains(a.Missing, want) {
			t.Errorf("%s: %v, %q", want, ok, a.Missing)
		}
	}
}

// TestABoundSlotIsNotAdopted: a Slot that lost only its policy is adopted.
func TestABoundSlotIsNotAdopted(t *testing.T) {
	f := adoption()
	f.Record.InstanceID, f.Record.VMUUID = "i-1", "vm-1"
	if a, ok := Adoption(f, epoch); !ok || a.Missing != "" {
		t.Errorf("policy lost: %+v, %v", a, ok)
	}
	f.Bound = true
	if _, ok := Adoption(f, epoch); ok {
		t.Error("a bound slot is adopted")
	}
	f.Bound, f.Record.VMUUID = false, "vm-2"
	if _, ok := Adoption(f, epoch); ok {
		t.Error("a slot of another CVM is adopted")
	}
}

// TestAmongRevisionsThatMeasureTheSameTheTargetIsMeant: the target wins, unless another Revision's document has
// exactly the attested hash.
func TestAmongRevisionsThatMeasureTheSameTheTargetIsMeant(t *testing.T) {
	f := adoption()
	other := f.Spec
	other.Template.InstanceType = "tdx.large"
	f.Revisions = map[string]group.RevisionRecord{
		other.Revision():  {Digest: other.Revision(), Group: "db", Template: other.Template},
		f.Spec.Revision(): {Digest: f.Spec.Revision(), Group: "db", Template: f.Spec.Template},
	}
	if a, _ := Adoption(f, epoch); a.Revision != f.Spec.Revision() {
		t.Errorf("%+v", a)
	}
	r := f.Revisions[other.Revision()]
	r.ComposeHash = provenHash
	f.Revisions[other.Revision()] = r
	if a, _ := Adoption(f, epoch); a.Revision != other.Revision() {
		t.Errorf("%+v", a)
	}
}

// TestAMemberIsAdoptedAsARevisionOfItsGroup: a Revision of another group does not count, even with the same
// content. A record without a group counts as a Revision of this group.
func TestAMemberIsAdoptedAsARevisionOfItsGroup(t *testing.T) {
	for of, want := range map[string]bool{"db": true, "": true, "web": false} {
		f := adoption()
		runs, template := f.Spec.Revision(), f.Spec.Template
		f.Spec.Template.Compose = compose("B") // the spec has changed since
		f.Revisions = map[string]group.RevisionRecord{runs: {Digest: runs, Group: of, Template: template}}
		if a, ok := Adoption(f, epoch); !ok || (a.Missing == "") != want || (a.Revision == runs) != want {
			t.Errorf("a revision of %q: %+v", of, a)
		}
	}
}

// TestATT36_APolicyAllowsTheTextWithItsMark: the measured text is the text as Cadre rendered it.
func TestATT36_APolicyAllowsTheTextWithItsMark(t *testing.T) {
	compose := "services:\n  cadre:\n    command: [--revision-mark=" + appcompose.MarkPlace + "]\n"
	raw, err := appcompose.Render("demo-web", compose, nil)
	if err != nil {
		t.Fatal(err)
	}
	measured, _ := appcompose.Judge(raw, appcompose.Rules{})
	want := sha256.Sum256([]byte(measured.Compose))
	got := AllowedAs("r1", group.Template{Compose: compose}, appcompose.Hash(raw))
	if got.ComposeTextSHA256 != hex.EncodeToString(want[:]) || measured.Compose == compose {
		t.Errorf("allowed %s, measured text %q", got.ComposeTextSHA256, measured.Compose)
	}
}
