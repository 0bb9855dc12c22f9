package attest

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"time"

	"cadre.dev/attest/dstackverifier"
	"cadre.dev/core/appcompose"
	"cadre.dev/core/clusterid"
	"cadre.dev/core/policy"
	"cadre.dev/core/strictjson"
)

// MaxTrustSize bounds a trust file in bytes.
const MaxTrustSize = 1 << 20

// maxCoordinatorHashes is far more than an upgrade needs: the present hashes and the next.
const maxCoordinatorHashes = 64

// Trust is the trust file: the anchors of trust in a cluster's measured compose. The zero value
// trusts no evidence.
type Trust struct {
	// Cluster is the cluster's name, one DNS label.
	Cluster string `json:"cluster"`
	// CoordinatorAppID is the app whose instances are coordinators, 40 hex.
	CoordinatorAppID string `json:"coordinator_app_id"`
	// CoordinatorComposeHashes are the only compose hashes of a trusted coordinator at first
	// contact, 64 hex each. Empty: any of its app, so that the permission to upgrade that app
	// decides which code the coordinators run. It cannot be in the coordinators' own trust file,
	// because the hash covers that file.
	CoordinatorComposeHashes []string `json:"coordinator_compose_hashes,omitempty"`
	// ClusterID is the only accepted cluster ID of the coordinators' cluster (core/clusterid).
	// Empty: an agent accepts the first cluster ID that admits it and no other from then on. A
	// coordinator with it joins that cluster ID and never makes another.
	ClusterID string `json:"cluster_id,omitempty"`
	// RootsPEM are roots in addition to Intel's: another manufacturer, a simulated one.
	RootsPEM string `json:"roots_pem"`
	// KeyProvider is a mandatory pin (ATT-21): without it a host could run the
	// same compose under a KMS of its own.
	KeyProvider KeyProvider `json:"key_provider"`
	// Images are the OS images that may run, by name, each with at least one set
	// of measurements: RTMR0 depends on the shape of the VM.
	Images map[string][]policy.Measurement `json:"images"`
	// AllowSimulated admits evidence under RootsPEM.
	AllowSimulated bool `json:"allow_simulated"`
	// OperatorTokenSHA256 is the hash of the first operator's token; empty disables this way in.
	OperatorTokenSHA256 string `json:"operator_token_sha256"`
	// PreLaunchScriptsSHA256 are the pre_launch_script texts that the platform may
	// add to an app-compose.json, by hex SHA-256. Empty: none.
	PreLaunchScriptsSHA256 []string `json:"pre_launch_scripts_sha256,omitempty"`
	// SecureTimeOff lets guests boot without waiting for authenticated time: app-compose.json has
	// secure_time false. A clock difference between agents and coordinators still fails the
	// admission.
	SecureTimeOff bool `json:"secure_time_off,omitempty"`
	// Collateral is where coordinators find Intel's judgement of machines. Agents
	// need none: the coordinator hands its own over, signed by Intel.
	Collateral TrustCollateral `json:"collateral,omitzero"`
	// TCB lists the tolerated states of a machine in addition to UpToDate.
	TCB policy.TCBPolicy `json:"tcb,omitzero"`
	// DstackVerifier is a second opinion on all evidence; empty: none is asked.
	DstackVerifier TrustVerifier `json:"dstack_verifier,omitzero"`
}

// TrustCollateral names the sources of collateral, asked in this order. Neither is trusted: their
// collateral is signed.
type TrustCollateral struct {
	// PCCSURL is the base of a caching service in the form of Intel's, or Intel's own.
	PCCSURL string `json:"pccs_url,omitempty"`
	// PCCSCertSHA256 is the hex SHA-256 of the only accepted TLS certificate of this service, for a
	// self-signed certificate. Empty: the system's authorities decide.
	PCCSCertSHA256 string `json:"pccs_cert_sha256,omitempty"`
	// BundlePath is a file or folder of imported bundles, for coordinators without a
	// way out.
	BundlePath string `json:"bundle_path,omitempty"`
	// MaxAge bounds the age of Intel's signed documents, "168h" for example, from one hour to 30
	// days; empty: their own dates only.
	MaxAge string `json:"max_age,omitempty"`
}

// TrustVerifier is one dstack-verifier.
type TrustVerifier struct {
	// URL is http://127.0.0.1:port, unix:/path, or https elsewhere: its answer over
	// plain HTTP is anybody's.
	URL string `json:"url,omitempty"`
}

// LoadTrust reads the trust file at path and checks it as ParseTrust does. The bytes are for
// CheckMeasured, without which the file is unauthenticated.
func LoadTrust(path string) (Trust, []byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return Trust{}, nil, fmt.Errorf("load trust file: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	data, err := io.ReadAll(io.LimitReader(f, MaxTrustSize+1))
	if err != nil {
		return Trust{}, nil, fmt.Errorf("load trust file %s: %w", path, err)
	}
	t, err := ParseTrust(data)
	if err != nil {
		return Trust{}, nil, fmt.Errorf("load trust file %s: %w", path, err)
	}
	return t, data, nil
}

// ParseTrust decodes and validates a trust file. The error is an *Error with
// CodePolicyInvalid, or CodeTooLarge, and names every problem at once.
func ParseTrust(data []byte) (Trust, error) {
	if len(data) > MaxTrustSize {
		return Trust{}, refuse(CodeTooLarge, "trust file has more than %d bytes", MaxTrustSize)
	}
	var t Trust
	if err := strictjson.Unmarshal(data, &t); err != nil {
		return Trust{}, refuse(CodePolicyInvalid, "trust file: %v", err)
	}
	if err := t.Validate(); err != nil {
		return Trust{}, refuse(CodePolicyInvalid, "trust file: %v", err)
	}
	return t, nil
}

// MayCoordinate reports whether a coordinator that runs composeHash is trusted: it is on the list,
// or there is no list.
func (t Trust) MayCoordinate(composeHash string) bool {
	return len(t.CoordinatorComposeHashes) == 0 || slices.Contains(t.CoordinatorComposeHashes, composeHash)
}

// DocumentRules are the rules for the cluster's app-compose.json.
func (t Trust) DocumentRules() appcompose.Rules {
	return appcompose.Rules{Scripts: slices.Clone(t.PreLaunchScriptsSHA256), KeyProviderID: t.KeyProvider.ID, SecureTimeOff: t.SecureTimeOff}
}

// ImagePolicy is the part of Trust that Appraise uses.
func (t Trust) ImagePolicy() policy.ImagePolicy {
	images := make(map[string][]policy.Measurement, len(t.Images))
	for name, sets := range t.Images {
		images[name] = slices.Clone(sets)
	}
	return policy.ImagePolicy{
		Images:          images,
		KeyProviderName: t.KeyProvider.Name,
		KeyProviderID:   t.KeyProvider.ID,
		AllowSimulated:  t.AllowSimulated,
		TCB:             policy.TCBPolicy{Exceptions: slices.Clone(t.TCB.Exceptions), GraceDays: t.TCB.GraceDays, OperatorExceptions: t.TCB.OperatorExceptions},
	}
}

// VerifierConfig is the part of Trust that a Verifier uses. It has no source of collateral: an
// agent's verifier takes the collateral in the evidence, a coordinator adds CollateralSource.
func (t Trust) VerifierConfig() VerifierConfig {
	maxAge, _ := t.Collateral.maxAge() // Validate refused a bad one
	cfg := VerifierConfig{Documents: t.DocumentRules(), MaxCollateralAge: maxAge}
	if t.RootsPEM != "" {
		cfg.RootsPEM = []byte(t.RootsPEM)
	}
	return cfg
}

var (
	clusterName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	hex40       = regexp.MustCompile(`^[0-9a-f]{40}$`)
	hex64       = regexp.MustCompile(`^[0-9a-f]{64}$`)
	hex96       = regexp.MustCompile(`^[0-9a-f]{96}$`)
	// providerID: an MRENCLAVE has 32 bytes, a P-256 SubjectPublicKeyInfo 91.
	providerID = regexp.MustCompile(`^([0-9a-f]{2}){32,128}$`)
)

// Validate reports every problem of t at once; ParseTrust calls it.
func (t Trust) Validate() error {
	var problems []error
	add := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if !clusterName.MatchString(t.Cluster) {
		add("cluster %q is not a name: 1 to 63 lower-case letters, digits and inner '-'", t.Cluster)
	}
	if !hex40.MatchString(t.CoordinatorAppID) {
		add("coordinator_app_id %q is not 40 lower-case hex characters", t.CoordinatorAppID)
	}
	if len(t.CoordinatorComposeHashes) > maxCoordinatorHashes {
		add("coordinator_compose_hashes has %d entries, the limit is %d: remove the hashes that no coordinator runs any more", len(t.CoordinatorComposeHashes), maxCoordinatorHashes)
	}
	for i, hash := range t.CoordinatorComposeHashes {
		if !hex64.MatchString(hash) {
			add("coordinator_compose_hashes[%d] %.80q is not 64 lower-case hex characters; copy it from coordinator_compose_hashes of the cluster's context", i, hash)
		}
	}
	if t.ClusterID != "" {
		if err := clusterid.Check(t.ClusterID); err != nil {
			add("cluster_id: %w; copy it from cluster_id of the cluster's context", err)
		}
	}
	switch t.KeyProvider.Name {
	case "kms":
	case "local-sgx", "tpm":
		// Such a pin would only show at the first boot, as a refusal of all of them.
		add("key_provider.name %q can never be admitted: app-compose.json must have kms_enabled true, since disks and app keys must outlive an update; run a KMS and set the name to \"kms\"", t.KeyProvider.Name)
	case "none", "":
		add("key_provider.name %q pins no key provider; set it to \"kms\" and the id to that of the platform's KMS", t.KeyProvider.Name)
	default:
		add("key_provider.name %q is not kms", t.KeyProvider.Name)
	}
	if !providerID.MatchString(t.KeyProvider.ID) {
		add("key_provider.id is not 32 to 128 bytes of lower-case hex; copy it from the key-provider event of a CVM you trust")
	}
	if len(t.Images) == 0 {
		add("images is empty: no CVM could be admitted; name at least one OS image")
	}
	for _, name := range slices.Sorted(maps.Keys(t.Images)) {
		problems = append(problems, validateImage(name, t.Images[name])...)
	}
	if t.RootsPEM != "" {
		if _, err := loadRoots([]byte(t.RootsPEM)); err != nil {
			add("roots_pem: %w", err)
		}
	}
	// Both settings must agree, so that neither is set by accident.
	if t.AllowSimulated != (t.RootsPEM != "") {
		add("allow_simulated is %t, roots_pem is %s: set both or neither", t.AllowSimulated, emptyOrSet(t.RootsPEM))
	}
	if t.OperatorTokenSHA256 != "" && !hex64.MatchString(t.OperatorTokenSHA256) {
		add("operator_token_sha256 is not 64 lower-case hex characters")
	}
	for i, digest := range t.PreLaunchScriptsSHA256 {
		if !hex64.MatchString(digest) {
			add("pre_launch_scripts_sha256[%d] is not 64 lower-case hex characters", i)
		}
	}
	problems = append(problems, t.Collateral.validate()...)
	if err := t.TCB.Validate(time.Now()); err != nil {
		add("tcb: %w", err)
	}
	if t.DstackVerifier.URL != "" {
		if _, err := dstackverifier.New(dstackverifier.Config{URL: t.DstackVerifier.URL}); err != nil {
			add("dstack_verifier.url: %w", err)
		}
	}
	return errors.Join(problems...)
}

func validateImage(name string, sets []policy.Measurement) []error {
	if name == "" {
		return []error{errors.New("images has an image without a name")}
	}
	if len(sets) == 0 {
		return []error{fmt.Errorf("images[%q] has no measurements; remove it or add a set", name)}
	}
	var problems []error
	for i, m := range sets {
		for _, register := range []struct{ name, value string }{
			{"mrtd", m.MRTD}, {"rtmr0", m.RTMR0}, {"rtmr1", m.RTMR1}, {"rtmr2", m.RTMR2},
		} {
			if !hex96.MatchString(register.value) {
				problems = append(problems, fmt.Errorf("images[%q][%d].%s is not 96 lower-case hex characters", name, i, register.name))
			}
		}
	}
	return problems
}

func emptyOrSet(s string) string {
	if s == "" {
		return "empty"
	}
	return "set"
}
