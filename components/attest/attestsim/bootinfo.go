package attestsim

import (
	"crypto/sha256"

	"cadre.dev/attest/collateral"
)

// KeyRequest holds the facts that the KMS of dstack reads from the quote with which a guest asks for
// its keys, and sends to its authorisation webhook. Byte fields are lower-case hex.
type KeyRequest struct {
	AttestationMode string   `json:"attestationMode"`
	MRAggregated    string   `json:"mrAggregated"`
	OSImageHash     string   `json:"osImageHash"`
	MRSystem        string   `json:"mrSystem"`
	AppID           string   `json:"appId"`
	ComposeHash     string   `json:"composeHash"`
	InstanceID      string   `json:"instanceId"`
	DeviceID        string   `json:"deviceId"`
	KeyProviderInfo string   `json:"keyProviderInfo"`
	TCBStatus       string   `json:"tcbStatus"`
	AdvisoryIDs     []string `json:"advisoryIds"`
}

// KeyRequest is that of g, as the manufacturer rates its machine. The guest asks after the event
// boot-mr-done, so it has measured no key provider yet.
func (g *Guest) KeyRequest(p Posture) KeyRequest {
	g.mu.Lock()
	defer g.mu.Unlock()
	var rtmr3 [48]byte
	for _, ev := range g.events {
		if ev.IMR != 3 {
			continue
		}
		rtmr3 = extend(rtmr3, ev.Digest)
		if ev.Name == "boot-mr-done" {
			break
		}
	}
	registers := [][]byte{g.report.MRTD[:], g.report.RTMR[0][:], g.report.RTMR[1][:], g.report.RTMR[2][:]}
	system, aggregated := sha256.New(), sha256.New()
	for _, r := range registers {
		system.Write(r)
		aggregated.Write(r)
	}
	system.Write(make([]byte, sha256.Size)) // no key provider
	aggregated.Write(rtmr3[:])
	if g.report.MRConfigID != [48]byte{} || g.report.MROwner != [48]byte{} || g.report.MROwnerConfig != [48]byte{} {
		aggregated.Write(g.report.MRConfigID[:])
		aggregated.Write(g.report.MROwner[:])
		aggregated.Write(g.report.MROwnerConfig[:])
	}
	device := sha256.Sum256(g.host.ppid)
	status, advisories := p.rating(g.host)
	return KeyRequest{
		AttestationMode: "dstack-tdx", MRAggregated: hexOf(aggregated.Sum(nil)), MRSystem: hexOf(system.Sum(nil)), OSImageHash: hexOf(g.image.hash[:]),
		AppID: hexOf(g.appID), ComposeHash: hexOf(g.composeHash[:]), InstanceID: hexOf(g.instanceID), DeviceID: hexOf(device[:]),
		TCBStatus: status, AdvisoryIDs: append([]string{}, advisories...),
	}
}

// ImageDigest is the digest of the OS image of that name, which a guest measures as os-image-hash and
// a KeyRequest names: 64 lower-case hex digits.
func ImageDigest(name string) string {
	img := imageNamed(name, Shapes[0])
	return hexOf(img.hash[:])
}

// rating is the status of h's level, and its advisories.
func (p Posture) rating(h *host) (status string, advisories []string) {
	switch {
	case !p.Replaced.IsZero() && h.updated:
		return string(collateral.UpToDate), nil
	case p.Platform != "":
		return p.Platform, p.Advisories
	case !p.Replaced.IsZero():
		return string(collateral.OutOfDate), p.Advisories
	}
	return string(collateral.UpToDate), p.Advisories
}

// Posture is the rating that the service serves now.
func (p *PCCS) Posture() Posture {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.posture
}
