package attestsim

import (
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
)

// signingPath and signingPurpose are those of the key behind Sign and Verify.
const (
	signingPath    = "vms"
	signingPurpose = "signing"
)

type keyRequest struct {
	Path      string `json:"path"`
	Purpose   string `json:"purpose"`
	Algorithm string `json:"algorithm"`
}

type keyReply struct {
	Key            hexBytes   `json:"key"`
	SignatureChain []hexBytes `json:"signature_chain"`
}

func (g *Guest) getKey(request keyRequest) (keyReply, error) {
	// Older agents have no such field and always answer secp256k1.
	if !g.version.atLeast(0, 5, 6) {
		request.Algorithm = ""
	}
	key, public, err := g.derivedKey(request.Path, request.Algorithm)
	if err != nil {
		return keyReply{}, err
	}
	return keyReply{Key: key, SignatureChain: g.chainFor(request.Purpose, public)}, nil
}

// derivedKey is the 32 bytes of path; the algorithm only names their use.
func (g *Guest) derivedKey(path, algorithm string) (key, public []byte, err error) {
	key, err = ratls(g.appKey.Serialize(), path)
	if err != nil {
		return nil, nil, fmt.Errorf("derive key: %w", err)
	}
	switch algorithm {
	case "", "k256", "secp256k1", "secp256k1_prehashed":
		return key, secp256k1.PrivKeyFromBytes(key).PubKey().SerializeCompressed(), nil
	case "ed25519":
		return key, ed25519.NewKeyFromSeed(key)[32:], nil
	}
	return nil, nil, agentError("Unsupported algorithm")
}

// chainFor vouches for a public key: the app key signs it, the KMS the app key.
func (g *Guest) chainFor(purpose string, public []byte) []hexBytes {
	return []hexBytes{
		signRecoverable(g.appKey, fmt.Appendf(nil, "%s:%x", purpose, public)),
		g.appKeySigned,
	}
}

type signRequest struct {
	Algorithm string   `json:"algorithm"`
	Data      hexBytes `json:"data"`
}

type signReply struct {
	Signature      hexBytes   `json:"signature"`
	SignatureChain []hexBytes `json:"signature_chain"`
	PublicKey      hexBytes   `json:"public_key"`
}

func (g *Guest) sign(request signRequest) (signReply, error) {
	key, public, err := g.derivedKey(signingPath, request.Algorithm)
	if err != nil {
		return signReply{}, err
	}
	var signature []byte
	if request.Algorithm == "ed25519" {
		signature = ed25519.Sign(ed25519.NewKeyFromSeed(key), request.Data)
	} else {
		digest, err := k256Digest(request.Algorithm, request.Data)
		if err != nil {
			return signReply{}, err
		}
		signature = ecdsa.SignCompact(secp256k1.PrivKeyFromBytes(key), digest, true)[1:]
	}
	return signReply{
		Signature:      signature,
		SignatureChain: append([]hexBytes{signature}, g.chainFor(signingPurpose, public)...),
		PublicKey:      public,
	}, nil
}

// k256Digest is the digest that a secp256k1 signature covers.
func k256Digest(algorithm string, data []byte) ([]byte, error) {
	if algorithm != "secp256k1_prehashed" {
		sum := sha256.Sum256(data)
		return sum[:], nil
	}
	if len(data) != sha256.Size {
		return nil, agentError(fmt.Sprintf("Pre-hashed signing requires a %d-byte digest, but received %d bytes", sha256.Size, len(data)))
	}
	return data, nil
}

type verifyRequest struct {
	Algorithm string   `json:"algorithm"`
	Data      hexBytes `json:"data"`
	Signature hexBytes `json:"signature"`
	PublicKey hexBytes `json:"public_key"`
}

type verifyReply struct {
	Valid bool `json:"valid"`
}

func (g *Guest) verify(request verifyRequest) (verifyReply, error) {
	switch request.Algorithm {
	case "ed25519":
		if len(request.PublicKey) != ed25519.PublicKeySize {
			return verifyReply{}, agentError("Invalid public key")
		}
		return verifyReply{ed25519.Verify(ed25519.PublicKey(request.PublicKey), request.Data, request.Signature)}, nil
	case "k256", "secp256k1", "secp256k1_prehashed":
		digest, err := k256Digest(request.Algorithm, request.Data)
		if err != nil {
			return verifyReply{}, err
		}
		public, err := secp256k1.ParsePubKey(request.PublicKey)
		if err != nil {
			return verifyReply{}, agentError("Invalid public key")
		}
		if len(request.Signature) != 64 {
			return verifyReply{}, agentError("Invalid signature")
		}
		var r, s secp256k1.ModNScalar
		if r.SetByteSlice(request.Signature[:32]) || s.SetByteSlice(request.Signature[32:]) {
			return verifyReply{}, agentError("Invalid signature")
		}
		return verifyReply{ecdsa.NewSignature(&r, &s).Verify(digest, public)}, nil
	}
	return verifyReply{}, agentError("Unsupported algorithm")
}
