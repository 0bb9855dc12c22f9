package policy

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"cadre.dev/core/appcompose"
)

// Appraise compares genuine Claims with the Slot's policy. It allows only when every comparison
// holds; an empty value in the policy denies. The first failing comparison names the Code, in this
// order: the policy itself, the kind of root, the statement, the identity, the key provider, the OS
// image, the TCB, revocations of the instance and its key provider, the Revision with its compose
// text and OS image, its revocation, the floor, the approval.
//
// Two allowed Revisions can share compose hash and OS image, and differ in parts that are not
// measured. Appraise then takes the later one in Allowed: the caller lists the newest last. With
// the same hash and different images, Appraise takes the Revision whose image the Boot runs.
//
// now is the time of trusted decisions (collateral, exceptions), from the caller.
func Appraise(sp SlotPolicy, ip ImagePolicy, st Statement, c Claims, now time.Time) Decision {
	return appraise(sp, ip, st, c, textDigest(c.ComposeText), now)
}

// appraise is Appraise of a compose text that is known by its digest.
func appraise(sp SlotPolicy, ip ImagePolicy, st Statement, c Claims, text string, now time.Time) Decision {
	if err := ip.Validate(); err != nil {
		return deny(CodePolicyInvalid, "%v", err)
	}
	if c.Simulated && !ip.AllowSimulated {
		return deny(CodeTEETypeForbidden, "the evidence comes from a simulated root, which this cluster does not name")
	}
	for _, check := range []func() Decision{
		func() Decision { return stated(st, c) },
		func() Decision { return identity(sp, st, c) },
		func() Decision { return keyProvider(ip, c) },
		func() Decision { return measured(ip, c) },
	} {
		if d := check(); d.Code != "" {
			return d
		}
	}
	// From here on a named image wrote the event log, so the instance id is genuine.
	d := AppraiseTCB(ip.TCB, c.TCB, now)
	if d.Code == "" {
		d = revokedBoot(sp, c)
	}
	if d.Code == "" {
		d = revision(sp, ip, c, text)
	}
	d.Proven = true
	return d
}

// stated compares the Boot's statement with the content of its quote (ATT-23).
func stated(st Statement, c Claims) Decision {
	switch {
	case st.AppID == "" || st.AppID != c.AppID:
		return deny(CodeStatementMismatch, "the statement and the evidence name different apps")
	case st.InstanceID != c.InstanceID:
		return deny(CodeStatementMismatch, "the statement and the evidence name different instances")
	case st.ComposeHash == "" || normalHash(st.ComposeHash) != normalHash(c.ComposeHash):
		return deny(CodeStatementMismatch, "the statement and the evidence name different compose hashes")
	}
	return Decision{}
}

// coordinators is the group of the coordinators' identities (group.Coordinators); no
// operator's group can have this name.
const coordinators = "coordinator"

// identity: the Slot is bound to this instance of this app (ATT-22, ATT-33),
// and no worker is a coordinator (IDN-07).
func identity(sp SlotPolicy, st Statement, c Claims) Decision {
	switch {
	case sp.AppID == "" || c.AppID != sp.AppID:
		return deny(CodeAppIDMismatch, "the evidence's app is not the one of the slot")
	case st.Group == coordinators && sp.Group != coordinators:
		return deny(CodeIdentityForbidden, "a worker's boot asks for the identity of a coordinator")
	case sp.Slot == "" || st.Slot != sp.Slot || st.Group != sp.Group:
		return deny(CodeSlotMismatch, "the statement names another slot than the instance is bound to")
	case sp.InstanceID == "":
		return deny(CodeInstanceMismatch, "no instance is bound to the slot yet")
	case c.InstanceID != sp.InstanceID:
		return deny(CodeInstanceMismatch, "another instance is bound to the slot")
	}
	return Decision{}
}

// keyProvider is a mandatory pin (ATT-21).
func keyProvider(ip ImagePolicy, c Claims) Decision {
	if c.KeyProviderName != ip.KeyProviderName || c.KeyProviderID != ip.KeyProviderID {
		return deny(CodeKMSPolicyMismatch, "the boot's key provider is not the pinned one")
	}
	return Decision{}
}

// measured: some named OS image measures like this (ATT-20).
func measured(ip ImagePolicy, c Claims) Decision {
	for name := range ip.Images {
		if ip.measures(name, c) {
			return Decision{}
		}
	}
	return deny(CodeMeasurementMismatch, "the boot's measurements are those of no OS image in the policy")
}

// revision returns the newest Revision that the Slot may run and the Boot proved (ATT-15, ATT-16).
// The OS image distinguishes Revisions with the same compose hash. A refusal names the newest
// Revision with the proven pair of hash and image; without such a pair, the newest Revision with
// that hash.
func revision(sp SlotPolicy, ip ImagePolicy, c Claims, text string) Decision {
	hash := normalHash(c.ComposeHash)
	refusal := deny(CodeRevisionNotAllowed, "compose hash %.16s is not allowed for slot %s now", hash, sp.Slot)
	matched, proved := false, false
	for i := len(sp.Allowed) - 1; i >= 0; i-- {
		a := sp.Allowed[i]
		if hash == "" || a.Revision == "" || normalHash(a.ComposeHash) != hash {
			continue
		}
		d := Decision{Allowed: true, Revision: a.Revision}
		switch {
		case c.AppComposeProblem != "":
			d = deny(CodeComposeForbidden, "app-compose.json: %s", c.AppComposeProblem)
		case a.ComposeTextSHA256 != text:
			d = deny(CodeComposeForbidden, "the measured compose text is not that of revision %.8s", a.Revision)
		case beyond(a, c) != "":
			d = deny(CodeComposeForbidden, "app-compose.json: allowed_envs names %.80q, which is neither in the env of revision %.8s nor one of Cadre's locators", beyond(a, c), a.Revision)
		case !ip.measures(a.OSImage, c):
			d = deny(CodeOSImageForbidden, "the boot does not run OS image %q of revision %.8s", a.OSImage, a.Revision)
		}
		if d.Allowed {
			if d = barred(sp, a); d.Code == "" {
				return Decision{Allowed: true, Revision: a.Revision}
			}
		}
		if pair := ip.Proves(c, a); !matched || pair && !proved {
			refusal, matched, proved = d, true, pair
		}
	}
	return refusal
}

// Proves reports that c are Claims of a Boot of a: its compose hash under its OS image.
// Whether it may run is not asked.
func (ip ImagePolicy) Proves(c Claims, a AllowedRevision) bool {
	hash := normalHash(c.ComposeHash)
	return hash != "" && a.Revision != "" && hash == normalHash(a.ComposeHash) && ip.measures(a.OSImage, c)
}

// beyond returns a variable that the attested document lets the environment set and the Revision
// does not name; "" if there is none (ATT-17).
func beyond(a AllowedRevision, c Claims) string {
	return appcompose.Beyond(c.AllowedEnvs, appcompose.SplitNames(a.EnvNames), appcompose.MemberLocators())
}

// revokedBoot: neither the instance nor its key provider is revoked.
func revokedBoot(sp SlotPolicy, c Claims) Decision {
	for _, r := range sp.Revoked {
		switch {
		case r.Kind == RevokedInstance && c.InstanceID != "" && strings.EqualFold(r.ID, c.InstanceID):
			return deny(CodePeerRevoked, "the instance is revoked: %s", cmp.Or(r.Reason, noReason))
		case r.Kind == RevokedKeyProvider && strings.EqualFold(r.ID, c.KeyProviderID):
			return deny(CodeKMSPolicyMismatch, "the boot's key provider is revoked: %s", cmp.Or(r.Reason, noReason))
		}
	}
	return Decision{}
}

const noReason = "no reason was given"

// barred is why an allowed Revision is not admitted all the same: it is revoked,
// below the floor (ATT-25), or not approved (ATT-15). A zero Decision: nothing.
func barred(sp SlotPolicy, a AllowedRevision) Decision {
	for _, r := range sp.Revoked {
		if r.concerns(a.Revision, a.ComposeHash) {
			return deny(CodeRevisionNotAllowed, "revision %.8s is revoked: %s", a.Revision, cmp.Or(r.Reason, noReason))
		}
	}
	switch {
	case a.Number < sp.Floor:
		return deny(CodeRevisionBelowFloor, "revision %.8s (#%d) is below the floor #%d", a.Revision, a.Number, sp.Floor)
	case sp.RequireApproval && !a.Approved:
		return deny(CodeRevisionNotApproved, "revision %.8s is not approved", a.Revision)
	}
	return Decision{}
}

// measures reports that the named image is known to measure like c.
func (ip ImagePolicy) measures(image string, c Claims) bool {
	for _, m := range ip.Images[image] {
		if m.complete() && m == (Measurement{MRTD: c.MRTD, RTMR0: c.RTMR0, RTMR1: c.RTMR1, RTMR2: c.RTMR2}) {
			return true
		}
	}
	return false
}

// normalHash reads a compose hash as 64 lower-case hex digits; anything else is
// empty and matches nothing.
func normalHash(s string) string {
	s = strings.ToLower(strings.TrimPrefix(s, "0x"))
	if !isHex(s, 64) {
		return ""
	}
	return s
}

func deny(code Code, format string, args ...any) Decision {
	return Decision{Code: code, Message: fmt.Sprintf(format, args...)}
}
