package policy

import (
	"fmt"
	"slices"
	"time"
)

// ReattestAfter is how long credentials are renewed on the strength of one quote
// (ATT-32).
const ReattestAfter = 24 * time.Hour

// clockSlack is how far ahead of now evidence may seem to be: the clocks of two
// coordinators differ a little.
const clockSlack = 5 * time.Minute

// MayRenew decides whether the Boot of a may renew without new evidence: its evidence would still
// be admitted, the policy has not been narrowed since, and the evidence is not too old.
// REATTEST_REQUIRED asks for a full admission; with any other code an admission would fail as well.
func MayRenew(a Admission, sp SlotPolicy, ip ImagePolicy, now time.Time) Decision {
	if d := Reappraise(a, sp, ip, now); d.Code != "" {
		return d
	}
	if f := fresh(a, sp, now); f.Code != "" {
		return Decision{Code: f.Code, Message: f.Message}
	}
	return Decision{Allowed: true, Revision: a.Revision}
}

// Reappraise judges the evidence of a by the present policy. It ignores the age of the evidence and
// the policy's epoch.
func Reappraise(a Admission, sp SlotPolicy, ip ImagePolicy, now time.Time) Decision {
	for _, f := range reappraisal(a, sp, ip, now) {
		if f.Code != "" {
			return Decision{Code: f.Code, Message: f.Message}
		}
	}
	return Decision{Allowed: true, Revision: a.Revision}
}

// Barred returns the reason why the Boot of a loses the Slot at once: the Boot or its Revision was
// revoked, or is below the floor. A zero Decision: no reason. Other changes of the policy apply
// when the Boot attests again, so that a change of settings does not stop a cluster.
func Barred(a Admission, sp SlotPolicy) Decision {
	if a.BootID == "" {
		return Decision{}
	}
	c := a.Claims
	if c.InstanceID == "" {
		c.InstanceID = a.InstanceID
	}
	if d := revokedBoot(sp, c); d.Code != "" {
		return d
	}
	for _, allowed := range sp.Allowed {
		if allowed.Revision == a.Revision && (c.ComposeHash == "" || normalHash(allowed.ComposeHash) == normalHash(c.ComposeHash)) {
			if d := barred(sp, allowed); d.Code != CodeRevisionNotApproved {
				return d
			}
		}
	}
	for _, r := range sp.Revoked {
		if r.concerns(a.Revision, c.ComposeHash) {
			return deny(CodeRevisionNotAllowed, "revision %.8s is revoked: %s", a.Revision, r.Reason)
		}
	}
	return Decision{}
}

// MayStay decides whether the Boot of a keeps the Slot: it is not Barred, and its instance is the
// bound one. A denial of MayStay evicts the Boot; a denial of MayRenew only ends renewals.
func MayStay(a Admission, sp SlotPolicy) Decision {
	if d := Barred(a, sp); d.Code != "" {
		return d
	}
	if sp.InstanceID != "" && a.InstanceID != sp.InstanceID {
		return deny(CodeInstanceMismatch, "another instance is bound to the slot now")
	}
	return Decision{Allowed: true, Revision: a.Revision}
}

// Finding is one comparison of an appraisal, for people.
type Finding struct {
	// Name of the compared value, e.g. "key provider".
	Name string `json:"name"`
	// Found is the value in the evidence.
	Found string `json:"found,omitempty"`
	// Code and Message name the problem; empty: none.
	Code    Code   `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
}

// Findings are all comparisons behind MayRenew, the passed ones as well.
func Findings(a Admission, sp SlotPolicy, ip ImagePolicy, now time.Time) []Finding {
	return append(reappraisal(a, sp, ip, now), fresh(a, sp, now))
}

func reappraisal(a Admission, sp SlotPolicy, ip ImagePolicy, now time.Time) []Finding {
	c := a.Claims
	if a.BootID == "" {
		return []Finding{{Name: "boot", Code: CodeRenewDenied, Message: "no boot holds the slot"}}
	}
	if c.ComposeHash == "" || c.InstanceID == "" {
		return []Finding{{Name: "evidence", Code: CodeReattestRequired, Message: "the boot's evidence is not recorded"}}
	}
	if c.TCB.Status == "" {
		// A record from before machines were judged: new evidence would be judged.
		return []Finding{{Name: "tcb", Code: CodeReattestRequired, Message: "the machine was not judged by collateral when the boot attested"}}
	}
	finding := func(name, found string, d Decision) Finding {
		return Finding{Name: name, Found: found, Code: d.Code, Message: d.Message}
	}
	st := Statement{Group: a.Group, Slot: a.Slot, AppID: a.AppID, InstanceID: a.InstanceID, ComposeHash: c.ComposeHash}
	out := []Finding{finding("root of trust", rootWord(c), anchored(ip, c)), finding("admission record", a.BootID, own(a, st))}
	allowed := stillAllowed(a, sp, ip)
	bars := Decision{}
	if allowed.entry != nil {
		bars = barred(sp, *allowed.entry)
	}
	return append(out,
		finding("slot and instance", c.InstanceID, identity(sp, st, c)),
		finding("key provider", c.KeyProviderName, keyProvider(ip, c)),
		finding("os image", c.MRTD, measured(ip, c)),
		finding("tcb", c.TCB.Status, AppraiseTCB(ip.TCB, c.TCB, now)),
		finding("revocation of the instance or key provider", "", revokedBoot(sp, c)),
		finding("revision is allowed", a.Revision, allowed.Decision),
		finding("revocation, floor and approval of the revision", numberWord(allowed.entry), bars),
	)
}

func rootWord(c Claims) string {
	if c.Simulated {
		return "SIMULATED"
	}
	return "Intel"
}

func numberWord(a *AllowedRevision) string {
	if a == nil || a.Number == 0 {
		return ""
	}
	return fmt.Sprintf("#%d", a.Number)
}

// anchored: the policy is one, and the evidence is under a root that it names.
func anchored(ip ImagePolicy, c Claims) Decision {
	if err := ip.Validate(); err != nil {
		return deny(CodePolicyInvalid, "%v", err)
	}
	if c.Simulated && !ip.AllowSimulated {
		return deny(CodeTEETypeForbidden, "the evidence comes from a simulated root, which this cluster does not name")
	}
	return Decision{}
}

// own: the admission is of the evidence that it carries.
func own(a Admission, st Statement) Decision {
	if st.AppID != a.Claims.AppID || st.InstanceID != a.Claims.InstanceID {
		return deny(CodeRenewDenied, "the admission names another instance than its evidence")
	}
	return Decision{}
}

type verdict struct {
	Decision
	entry *AllowedRevision
}

// stillAllowed: the very Revision that was admitted may be run, with the hash that
// was measured. The hash commits to the compose text, which was compared then.
func stillAllowed(a Admission, sp SlotPolicy, ip ImagePolicy) verdict {
	hash := normalHash(a.Claims.ComposeHash)
	for _, allowed := range slices.Backward(sp.Allowed) {
		if hash == "" || a.Revision == "" || allowed.Revision != a.Revision || normalHash(allowed.ComposeHash) != hash {
			continue
		}
		if !ip.measures(allowed.OSImage, a.Claims) {
			return verdict{deny(CodeOSImageForbidden, "the boot does not run OS image %q of revision %.8s", allowed.OSImage, a.Revision), &allowed}
		}
		return verdict{Decision{}, &allowed}
	}
	return verdict{deny(CodeRevisionNotAllowed, "revision %.8s is not allowed for slot %s now", a.Revision, sp.Slot), nil}
}

// fresh: neither the policy nor the clock asks for new evidence.
func fresh(a Admission, sp SlotPolicy, now time.Time) Finding {
	f := Finding{Name: "age of the evidence", Found: a.AttestedAt.UTC().Format(time.RFC3339)}
	switch {
	case a.AttestedAt.IsZero() || a.AttestedAt.After(now.Add(clockSlack)):
		f.Found, f.Code, f.Message = "", CodeReattestRequired, "when the boot attested is not known"
	case !now.Before(a.AttestedAt.Add(ReattestAfter)):
		f.Code, f.Message = CodeReattestRequired, fmt.Sprintf("the evidence is older than %s", ReattestAfter)
	case sp.Epoch != a.Epoch:
		f.Code, f.Message = CodeReattestRequired, fmt.Sprintf("the policy changed since: epoch %d, admitted at %d", sp.Epoch, a.Epoch)
	}
	return f
}
