package attestsim

import (
	"encoding/binary"
	"math/bits"
)

// attestation is a quote over data together with its event log and configuration. It is the one
// blob that agents from 0.5.6 return from Attest and embed in RA-TLS certificates. Its form is
// version 0 of dstack's VersionedAttestation (dstack-attest of v0.5.11), in SCALE: the fields one
// after the other, integers little-endian, lists and texts after their compact length. An
// attestation for a certificate has only the runtime events, without digests.
func (g *Guest) attestation(data [64]byte, forCertificate bool) ([]byte, error) {
	quote, events, err := g.shownQuote(data)
	if err != nil {
		return nil, err
	}
	config, err := g.vmConfig()
	if err != nil {
		return nil, err
	}
	out := []byte{0, 0} // version 0; platform TDX
	out = scaleBytes(out, quote)
	var runtime []event
	for _, ev := range events {
		if ev.IMR == 3 {
			runtime = append(runtime, ev)
		}
	}
	log := events
	if forCertificate {
		log = runtime
	}
	out = scaleLength(out, len(log))
	for _, ev := range log {
		out = binary.LittleEndian.AppendUint32(out, uint32(ev.IMR))
		out = binary.LittleEndian.AppendUint32(out, ev.Type)
		digest := ev.Digest[:]
		if forCertificate {
			digest = nil
		}
		out = scaleBytes(out, digest)
		out = scaleBytes(out, []byte(ev.Name))
		out = scaleBytes(out, ev.Payload)
	}
	out = scaleLength(out, len(runtime))
	for _, ev := range runtime {
		out = scaleBytes(out, []byte(ev.Name))
		out = scaleBytes(out, ev.Payload)
	}
	out = append(out, data[:]...)
	return scaleBytes(out, []byte(config)), nil
}

func scaleBytes(out, value []byte) []byte {
	return append(scaleLength(out, len(value)), value...)
}

// scaleLength appends n in SCALE's compact form. Its lowest two bits encode the number of bytes.
func scaleLength(out []byte, n int) []byte {
	v := uint32(n)
	switch size := bits.Len32(v); {
	case size <= 6:
		return append(out, byte(v<<2))
	case size <= 14:
		return binary.LittleEndian.AppendUint16(out, uint16(v<<2|1))
	default:
		return binary.LittleEndian.AppendUint32(out, v<<2|2)
	}
}
