package auth

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"
)

// Least key sizes (RFC 7518 3.2 and 3.3).
const (
	minSecret  = 32   // bytes
	minRSABits = 2048 // bits
)

// The signing methods by kind of key. A token's own "alg" only ever chooses
// within the list of the key that is set, so a public key is never an HMAC secret.
var (
	hmacMethods    = []string{"HS256", "HS384", "HS512"}
	rsaMethods     = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}
	ecdsaMethods   = []string{"ES256", "ES384", "ES512"}
	ed25519Methods = []string{"EdDSA"}
)

// publicMethods are all methods whose verifying key may be published.
func publicMethods() []string {
	return append(append(append([]string{}, rsaMethods...), ecdsaMethods...), ed25519Methods...)
}

// source gives the fixed key (nil with JWKSURL or in dev login) and the methods
// that go with it.
func (c Config) source() (key any, methods []string, err error) {
	var set []string
	for name, is := range map[string]bool{
		"HMACSecret": len(c.HMACSecret) > 0, "PublicKeyFile": c.PublicKeyFile != "",
		"PublicKeyPEM": len(c.PublicKeyPEM) > 0, "JWKSURL": c.JWKSURL != "",
	} {
		if is {
			set = append(set, name)
		}
	}
	switch {
	case len(set) > 1:
		return nil, nil, fmt.Errorf("auth: %d kinds of keys are set; set one of HMACSecret, PublicKeyFile, PublicKeyPEM and JWKSURL", len(set))
	case len(c.HMACSecret) > 0:
		if len(c.HMACSecret) < minSecret {
			return nil, nil, fmt.Errorf("auth: HMACSecret is %d bytes; at least %d are needed", len(c.HMACSecret), minSecret)
		}
		return bytes.Clone(c.HMACSecret), hmacMethods, nil
	case c.PublicKeyFile != "":
		text, err := os.ReadFile(c.PublicKeyFile)
		if err != nil {
			return nil, nil, fmt.Errorf("auth: PublicKeyFile: %w", err)
		}
		return publicKey("PublicKeyFile", text)
	case len(c.PublicKeyPEM) > 0:
		return publicKey("PublicKeyPEM", c.PublicKeyPEM)
	case c.JWKSURL != "":
		return nil, publicMethods(), checkJWKSURL(c.JWKSURL)
	}
	return nil, nil, nil
}

// publicKey reads one public key from PEM text.
func publicKey(field string, text []byte) (any, []string, error) {
	block, rest := pem.Decode(text)
	if block == nil {
		return nil, nil, fmt.Errorf("auth: %s is not PEM text; it should start with -----BEGIN PUBLIC KEY-----", field)
	}
	if extra, _ := pem.Decode(rest); extra != nil {
		return nil, nil, fmt.Errorf("auth: %s holds more than one key; to have several at a time use JWKSURL", field)
	}
	key, err := parseBlock(block)
	if err != nil {
		return nil, nil, fmt.Errorf("auth: %s: %w", field, err)
	}
	switch key := key.(type) {
	case *rsa.PublicKey:
		if key.N.BitLen() < minRSABits {
			return nil, nil, fmt.Errorf("auth: %s is an RSA key of %d bits; at least %d are needed", field, key.N.BitLen(), minRSABits)
		}
		return key, rsaMethods, nil
	case *ecdsa.PublicKey:
		return key, ecdsaMethods, nil
	case ed25519.PublicKey:
		return key, ed25519Methods, nil
	}
	return nil, nil, fmt.Errorf("auth: %s holds a %T; RSA, ECDSA and Ed25519 keys are known", field, key)
}

func parseBlock(block *pem.Block) (crypto.PublicKey, error) {
	switch {
	case strings.HasSuffix(block.Type, "PRIVATE KEY"):
		return nil, errors.New("this is a private key; give the public one, and keep the private one with the issuer")
	case block.Type == "CERTIFICATE":
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		return cert.PublicKey, nil
	case block.Type == "RSA PUBLIC KEY":
		return x509.ParsePKCS1PublicKey(block.Bytes)
	}
	return x509.ParsePKIXPublicKey(block.Bytes)
}
