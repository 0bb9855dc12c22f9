package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"
)

// Bounds of a Proof: an adoptable Boot never exceeds them.
const (
	maxProofEnvs = 64
	maxProofText = 200
)

// Proof is the record at proofs/<slot>: the genuine evidence of a Boot whose Instance has no
// record, and whose CVM the platform names after the Slot. The record grants nothing. An operator
// can have the leader bind the Instance by it; the bound Boot then attests again.
type Proof struct {
	Group  string `json:"group"`
	Slot   string `json:"slot"`
	BootID string `json:"boot_id"`
	// Claims of the evidence.
	Claims Claims `json:"claims"`
	// ComposeTextSHA256 is the digest of the attested docker_compose_file.
	ComposeTextSHA256 string `json:"compose_text_sha256"`
	// AllowedEnvs of the attested app-compose.json.
	AllowedEnvs []string `json:"allowed_envs,omitempty"`
	// AppComposeProblem is why the attested app-compose.json is not acceptable.
	AppComposeProblem string `json:"app_compose_problem,omitempty"`
	// VIP is the address that the Boot says it was given; "": it was given none.
	VIP string    `json:"vip,omitempty"`
	At  time.Time `json:"at"`
	By  string    `json:"by"`
}

// NewProof makes the Proof of verified claims. ok is false when they do not fit one.
func NewProof(group, slot, bootID, vip string, c Claims) (p Proof, ok bool) {
	if len(c.AllowedEnvs) > maxProofEnvs || slices.ContainsFunc(c.AllowedEnvs, func(name string) bool { return len(name) > maxProofText }) {
		return Proof{}, false
	}
	p = Proof{Group: group, Slot: slot, BootID: bootID, VIP: vip, Claims: c, ComposeTextSHA256: textDigest(c.ComposeText), AllowedEnvs: slices.Clone(c.AllowedEnvs)}
	p.AppComposeProblem = truncateText(c.AppComposeProblem)
	p.Claims.ComposeText, p.Claims.AllowedEnvs, p.Claims.AppComposeProblem = "", nil, ""
	return p, true
}

// Same reports that p and q prove the same of the same Boot.
func (p Proof) Same(q Proof) bool {
	return p.BootID == q.BootID && p.VIP == q.VIP && p.Claims.InstanceID == q.Claims.InstanceID && p.Claims.AppID == q.Claims.AppID &&
		p.Claims.ComposeHash == q.Claims.ComposeHash && p.ComposeTextSHA256 == q.ComposeTextSHA256
}

// AppraiseProof returns the answer of Appraise once sp binds the Instance of p.
func AppraiseProof(sp SlotPolicy, ip ImagePolicy, p Proof, now time.Time) Decision {
	c := p.Claims
	c.AllowedEnvs, c.AppComposeProblem = p.AllowedEnvs, p.AppComposeProblem
	return appraise(sp, ip, Statement{Group: p.Group, Slot: p.Slot, AppID: c.AppID, InstanceID: c.InstanceID, ComposeHash: c.ComposeHash}, c, p.ComposeTextSHA256, now)
}

func textDigest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
