// Package httpmeter puts a [meter.Meter] in front of an HTTP service and behind an HTTP client.
//
// [Middleware] answers a request that a limit refuses with 429, Retry-After and a problem document, and tells clients
// with the RateLimit fields how much is left, so that they can slow down before they are refused. [Transport] is the other
// side: an [net/http.RoundTripper] that waits for its own limit and does as the server's fields say.
//
// # Fields
//
// RateLimit and RateLimit-Policy are those of draft-ietf-httpapi-ratelimit-headers-11 (May 2026), structured fields of
// RFC 9651. An Internet-Draft can still change; the middleware can leave them out. Retry-After is that of RFC 9110, section
// 10.2.3, the problem document that of RFC 9457.
package httpmeter
