package policy

import (
	"testing"
	"time"
)

// admitted is the admission of an admissible exchange.
func (e exchange) admitted() Admission {
	return Admission{
		Group: e.sp.Group, Slot: e.sp.Slot, BootID: "boot", InstanceID: e.c.InstanceID, AppID: e.c.AppID, Revision: "new",
		Epoch: e.sp.Epoch, Generation: 1, AdmittedAt: noon, ExpiresAt: noon.Add(time.Hour), AttestedAt: noon, Claims: e.c,
	}
}

func TestATT32_RenewalNeedsFreshEvidenceAndTheSamePolicy(t *testing.T) {
	for name, c := range map[string]struct {
		edit  func(*exchange, *Admission)
		later time.Duration
		want  Code
	}{
		"at once":                             {nil, 0, ""},
		"just before the age":                 {nil, ReattestAfter - time.Second, ""},
		"at the age":                          {nil, ReattestAfter, CodeReattestRequired},
		"the policy was narrowed":             {func(e *exchange, _ *Admission) { e.sp.Epoch++ }, 0, CodeReattestRequired},
		"the policy went back":                {func(_ *exchange, a *Admission) { a.Epoch++ }, 0, CodeReattestRequired},
		"attested in the future":              {func(_ *exchange, a *Admission) { a.AttestedAt = noon.Add(time.Hour) }, 0, CodeReattestRequired},
		"when it attested is unknown":         {func(_ *exchange, a *Admission) { a.AttestedAt = time.Time{} }, 0, CodeReattestRequired},
		"what it proved is unknown":           {func(_ *exchange, a *Admission) { a.Claims = Claims{} }, 0, CodeReattestRequired},
		"the machine was never judged":        {func(_ *exchange, a *Admission) { a.Claims.TCB = TCB{} }, 0, CodeReattestRequired},
		"nobody holds the slot":               {func(_ *exchange, a *Admission) { *a = Admission{} }, 0, CodeRenewDenied},
		"the record is of another one":        {func(_ *exchange, a *Admission) { a.Claims.InstanceID = digits("9", 40) }, 0, CodeRenewDenied},
		"the floor was raised":                {func(e *exchange, _ *Admission) { e.sp.Floor = 2 }, 0, CodeRevisionBelowFloor},
		"it was raised, and the age":          {func(e *exchange, _ *Admission) { e.sp.Floor = 2 }, ReattestAfter, CodeRevisionBelowFloor},
		"approval became required":            {func(e *exchange, _ *Admission) { e.sp.RequireApproval = true }, 0, CodeRevisionNotApproved},
		"the instance was revoked":            {func(e *exchange, a *Admission) { revoking(RevokedInstance, a.InstanceID)(e) }, 0, CodePeerRevoked},
		"the revision was revoked":            {func(e *exchange, _ *Admission) { revoking(RevokedRevision, "new")(e) }, 0, CodeRevisionNotAllowed},
		"the key provider was revoked":        {func(e *exchange, _ *Admission) { revoking(RevokedKeyProvider, "00ff")(e) }, 0, CodeKMSPolicyMismatch},
		"the revision was withdrawn":          {func(e *exchange, _ *Admission) { e.sp.Allowed = e.sp.Allowed[:1] }, 0, CodeRevisionNotAllowed},
		"it measures another hash now":        {func(e *exchange, _ *Admission) { e.sp.Allowed[1].ComposeHash = digits("e", 64) }, 0, CodeRevisionNotAllowed},
		"another instance was bound":          {func(e *exchange, _ *Admission) { e.sp.InstanceID = digits("9", 40) }, 0, CodeInstanceMismatch},
		"the image is trusted no more":        {func(e *exchange, _ *Admission) { delete(e.ip.Images, "dstack-0.5.7") }, 0, CodeMeasurementMismatch},
		"the image of the revision moved":     {func(e *exchange, _ *Admission) { e.sp.Allowed[1].OSImage = "dstack-0.5.8" }, 0, CodeOSImageForbidden},
		"the key provider was pinned anew":    {func(e *exchange, _ *Admission) { e.ip.KeyProviderID = "00fe" }, 0, CodeKMSPolicyMismatch},
		"simulated roots are trusted no more": {func(e *exchange, a *Admission) { a.Claims.Simulated = true }, 0, CodeTEETypeForbidden},
		"the policy is none":                  {func(e *exchange, _ *Admission) { e.ip = ImagePolicy{} }, 0, CodePolicyInvalid},
		"the slot's policy is gone":           {func(e *exchange, _ *Admission) { e.sp = SlotPolicy{} }, 0, CodeAppIDMismatch},
	} {
		e := admissible()
		a := e.admitted()
		if c.edit != nil {
			c.edit(&e, &a)
		}
		d := MayRenew(a, e.sp, e.ip, noon.Add(c.later))
		if d.Code != c.want || d.Allowed != (c.want == "") || d.Allowed && d.Revision != "new" {
			t.Errorf("%s: %+v, want %q", name, d, c.want)
		}
		if found := Findings(a, e.sp, e.ip, noon.Add(c.later)); (c.want == "") != !anyWrong(found) {
			t.Errorf("%s: findings %+v", name, found)
		}
	}
}

// TestATT32_ABootOfTheOldestAllowedRevisionRenews: a rollout allows another Revision, and the Boot runs the old one.
func TestATT32_ABootOfTheOldestAllowedRevisionRenews(t *testing.T) {
	e := admissible()
	a := e.admitted()
	a.Revision, a.Claims.ComposeHash = "old", digits("d", 64)
	if d := MayRenew(a, e.sp, e.ip, noon); !d.Allowed || d.Revision != "old" {
		t.Errorf("decision %+v", d)
	}
}

// TestATT32_AnIncompleteRecordNamesItsMissingFields: the other findings would all be about values that are absent.
func TestATT32_AnIncompleteRecordNamesItsMissingFields(t *testing.T) {
	for want, edit := range map[string]func(*Admission){
		"evidence": func(a *Admission) { a.Claims.ComposeHash = "" },
		"tcb":      func(a *Admission) { a.Claims.TCB = TCB{} },
		"boot":     func(a *Admission) { *a = Admission{} },
	} {
		e := admissible()
		a := e.admitted()
		edit(&a)
		if found := Findings(a, e.sp, e.ip, noon); len(found) != 2 || found[0].Name != want {
			t.Errorf("findings %+v, want one about %s and one about its age", found, want)
		}
	}
}

func anyWrong(list []Finding) bool {
	for _, f := range list {
		if f.Code != "" {
			return true
		}
	}
	return false
}

// TestOnlyOperatorsBarARevision: settings that change do not stop a cluster.
func TestOnlyOperatorsBarARevision(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*exchange)
		want Code
	}{
		"nothing":                 {func(*exchange) {}, ""},
		"approval became asked":   {func(e *exchange) { e.sp.RequireApproval = true }, ""},
		"the epoch":               {func(e *exchange) { e.sp.Epoch++ }, ""},
		"the policy is gone":      {func(e *exchange) { e.sp = SlotPolicy{} }, ""},
		"withdrawn by a rollout":  {func(e *exchange) { e.sp.Allowed = nil }, ""},
		"the floor":               {func(e *exchange) { e.sp.Floor = 5 }, CodeRevisionBelowFloor},
		"the instance":            {revoking(RevokedInstance, digits("b", 40)), CodePeerRevoked},
		"the revision":            {revoking(RevokedRevision, "new"), CodeRevisionNotAllowed},
		"the key provider":        {revoking(RevokedKeyProvider, "00ff"), CodeKMSPolicyMismatch},
		"the other revision":      {revoking(RevokedRevision, "old"), ""},
		"another instance's fate": {revoking(RevokedInstance, digits("9", 40)), ""},
	} {
		e := admissible()
		a := e.admitted()
		c.edit(&e)
		if d := Barred(a, e.sp); d.Code != c.want {
			t.Errorf("%s: %+v, want %q", name, d, c.want)
		}
		if d := MayStay(a, e.sp); d.Code != c.want || d.Allowed != (c.want == "") {
			t.Errorf("%s: may stay %+v, want %q", name, d, c.want)
		}
	}
	e := admissible()
	a := e.admitted()
	e.sp.InstanceID = digits("9", 40)
	if d := MayStay(a, e.sp); d.Code != CodeInstanceMismatch {
		t.Errorf("another instance was bound: %+v", d)
	}
}

// TestATT25_OnlyTheMeasuredRevisionIsBarred: only the policy's entry of the measured Revision
// counts.
func TestATT25_OnlyTheMeasuredRevisionIsBarred(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*exchange, *Admission)
		want Code
	}{
		"all is well":                   {func(*exchange, *Admission) {}, ""},
		"below the floor":               {func(e *exchange, _ *Admission) { e.sp.Floor, e.sp.Allowed[1].Number = 3, 2 }, CodeRevisionBelowFloor},
		"another one is below it":       {func(e *exchange, _ *Admission) { e.sp.Floor, e.sp.Allowed[0].Number, e.sp.Allowed[1].Number = 3, 2, 3 }, ""},
		"its name with another hash":    {func(e *exchange, _ *Admission) { e.sp.Floor, e.sp.Allowed[1].ComposeHash = 3, digits("9", 64) }, ""},
		"a record without its hash":     {func(e *exchange, a *Admission) { e.sp.Floor, a.Claims.ComposeHash = 3, "" }, CodeRevisionBelowFloor},
		"approval is for what comes":    {func(e *exchange, _ *Admission) { e.sp.RequireApproval = true }, ""},
		"nobody is in":                  {func(e *exchange, a *Admission) { e.sp.Floor = 3; *a = Admission{} }, ""},
		"a record without its instance": {func(e *exchange, a *Admission) { a.Claims.InstanceID = ""; revoking(RevokedInstance, a.InstanceID)(e) }, CodePeerRevoked},
		"its hash is revoked, not listed": {func(e *exchange, a *Admission) {
			revoking(RevokedRevision, a.Claims.ComposeHash)(e)
			e.sp.Allowed = nil
		}, CodeRevisionNotAllowed},
	} {
		e := admissible()
		a := e.admitted()
		c.edit(&e, &a)
		if d := Barred(a, e.sp); d.Code != c.want {
			t.Errorf("%s: %+v, want %q", name, d, c.want)
		}
	}
}

// TestIDN01_AnotherBindingRefusesTheInstance: not the Boot of an instance that is not bound any more.
func TestIDN01_AnotherBindingRefusesTheInstance(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*exchange, *Admission)
		want Code
	}{
		"bound":            {func(*exchange, *Admission) {}, ""},
		"another is bound": {func(e *exchange, _ *Admission) { e.sp.InstanceID = digits("9", 40) }, CodeInstanceMismatch},
		"nobody is":        {func(e *exchange, _ *Admission) { e.sp.InstanceID = "" }, ""},
		"revoked":          {func(e *exchange, a *Admission) { revoking(RevokedInstance, a.InstanceID)(e) }, CodePeerRevoked},
	} {
		e := admissible()
		a := e.admitted()
		c.edit(&e, &a)
		if d := MayStay(a, e.sp); d.Code != c.want || d.Allowed != (c.want == "") {
			t.Errorf("%s: %+v, want %q", name, d, c.want)
		}
	}
}

// TestFindingsNumberTheRevision as lists of Revisions do; one of before they were numbered has none.
func TestFindingsNumberTheRevision(t *testing.T) {
	for number, want := range map[uint64]string{0: "", 12: "#12"} {
		e := admissible()
		a := e.admitted()
		for i := range e.sp.Allowed {
			e.sp.Allowed[i].Number = number
		}
		found, told := "", false
		for _, f := range Findings(a, e.sp, e.ip, noon) {
			if f.Name == "revocation, floor and approval of the revision" {
				found, told = f.Found, true
			}
		}
		if !told || found != want {
			t.Errorf("number %d is told as %q (%t), want %q", number, found, told, want)
		}
	}
}
