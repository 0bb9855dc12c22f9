package attest

import (
	"crypto/x509"
	"encoding/asn1"
	"encoding/hex"
	"errors"
	"fmt"
)

// The parts of a PCK certificate that name the machine, by Intel's profile of PCK certificates: one
// extension, which is a list of pairs of a name and a value.
var (
	sgxExtensionID   = asn1.ObjectIdentifier{1, 2, 840, 113741, 1, 13, 1}
	ppidID           = asn1.ObjectIdentifier{1, 2, 840, 113741, 1, 13, 1, 1}
	platformInstance = asn1.ObjectIdentifier{1, 2, 840, 113741, 1, 13, 1, 6}
)

const (
	// maxSGXExtension bounds the extension in bytes, and maxSGXPairs its pairs. Real ones have about
	// 550 bytes and five or seven pairs.
	maxSGXExtension = 4 << 10
	maxSGXPairs     = 32
	machineIDSize   = 16
)

// machineName returns the name of the machine that a verified PCK certificate is of:
// "platform-instance:" or "ppid:" and 32 lower-case hex digits. "" means that the certificate names
// no machine. An extension of another form is an error.
//
// A certificate of Intel's processor CA has a PPID only. It is fixed in the processor, and names the
// machine while the machine has one processor. A certificate of the platform CA also names the
// platform instance: all processors of the machine, registered as one. Its PPID follows from keys
// that the processors share, which are drawn when the machine is put together. So both values of a
// platform change when the machine is registered again after a factory reset of its SGX keys. The
// platform instance is the better name: Intel's registration service certifies it as the name of one
// whole machine. The PPID is used where the certificate names no platform instance, or zero.
//
// A factory reset takes a reboot, which ends every CVM of the machine. Two Boots that are alive at
// the same time and show different names therefore run on different machines.
func machineName(leaf *x509.Certificate) (string, error) {
	var value []byte
	for _, extension := range leaf.Extensions {
		if !extension.Id.Equal(sgxExtensionID) {
			continue
		}
		if value != nil {
			return "", errors.New("the PCK certificate has two SGX extensions")
		}
		value = extension.Value
	}
	values, err := sgxPairs(value)
	if err != nil {
		return "", fmt.Errorf("SGX extension of the PCK certificate: %w", err)
	}
	for _, name := range []struct {
		kind string
		id   asn1.ObjectIdentifier
	}{{"platform-instance:", platformInstance}, {"ppid:", ppidID}} {
		value, ok := values[name.id.String()]
		if !ok {
			continue
		}
		id, err := octets(value)
		if err != nil {
			return "", fmt.Errorf("SGX extension of the PCK certificate: %s %w", name.kind, err)
		}
		if id != [machineIDSize]byte{} {
			return name.kind + hex.EncodeToString(id[:]), nil
		}
	}
	return "", nil
}

// sgxPairs reads the pairs by the text of their names. A name that is there twice is an error, since
// two readers could take two values.
func sgxPairs(extension []byte) (map[string]asn1.RawValue, error) {
	if len(extension) > maxSGXExtension {
		return nil, fmt.Errorf("%d bytes, the limit is %d", len(extension), maxSGXExtension)
	}
	var list []asn1.RawValue
	if rest, err := asn1.Unmarshal(extension, &list); err != nil {
		return nil, fmt.Errorf("not a list: %w", err)
	} else if len(rest) > 0 {
		return nil, fmt.Errorf("%d bytes after the list", len(rest))
	}
	if len(list) > maxSGXPairs {
		return nil, fmt.Errorf("%d pairs, the limit is %d", len(list), maxSGXPairs)
	}
	values := make(map[string]asn1.RawValue, len(list))
	for i, pair := range list {
		if pair.Class != asn1.ClassUniversal || pair.Tag != asn1.TagSequence || !pair.IsCompound {
			return nil, fmt.Errorf("entry %d is not a pair", i)
		}
		var id asn1.ObjectIdentifier
		var value asn1.RawValue
		rest, err := asn1.Unmarshal(pair.Bytes, &id)
		if err == nil {
			rest, err = asn1.Unmarshal(rest, &value)
		}
		if err != nil {
			return nil, fmt.Errorf("entry %d is not a pair of a name and a value: %w", i, err)
		}
		if len(rest) > 0 {
			return nil, fmt.Errorf("entry %d has %d bytes after its value", i, len(rest))
		}
		if _, twice := values[id.String()]; twice {
			return nil, fmt.Errorf("%s is there twice", id)
		}
		values[id.String()] = value
	}
	return values, nil
}

func octets(value asn1.RawValue) (id [machineIDSize]byte, err error) {
	if value.Class != asn1.ClassUniversal || value.Tag != asn1.TagOctetString || value.IsCompound {
		return id, errors.New("is not an octet string")
	}
	if len(value.Bytes) != machineIDSize {
		return id, fmt.Errorf("has %d bytes, not %d", len(value.Bytes), machineIDSize)
	}
	return [machineIDSize]byte(value.Bytes), nil
}
