package access

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"strings"
)

// Hash is what is kept of a token. A token is 256 random bits, so there is nothing to try out: a plain SHA-256 keeps it
// secret, and needs no salt and no patience.
type Hash [sha256.Size]byte

const (
	tokenPrefix = "spout_" // so that a leaked token is recognized by scanners and by people
	hashPrefix  = "sha256:"
)

// NewToken makes a token. It is shown once; only its hash is kept.
func NewToken() (token string, hash Hash) {
	token = tokenPrefix + random()
	return token, HashOf(token)
}

// random is 256 bits of text.
func random() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // documented never to fail
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// HashOf is the hash of a token.
func HashOf(token string) Hash { return sha256.Sum256([]byte(token)) }

// String is the hash as the file of tokens has it: sha256: and hexadecimal digits.
func (h Hash) String() string { return hashPrefix + hex.EncodeToString(h[:]) }

// ParseHash reads what [Hash.String] writes.
func ParseHash(s string) (Hash, error) {
	var h Hash
	digits, ok := strings.CutPrefix(s, hashPrefix)
	b, err := hex.DecodeString(digits)
	switch {
	case strings.HasPrefix(s, tokenPrefix):
		return h, errors.New("it is a token, and must be its hash: make a new one with admin token new, since this one has been written down")
	case !ok || err != nil || len(b) != len(h):
		return h, errors.New("it is not sha256: and 64 hexadecimal digits, as admin token new prints them")
	}
	copy(h[:], b)
	return h, nil
}
