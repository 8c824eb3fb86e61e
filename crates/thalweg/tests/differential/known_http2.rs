//! Known differences of the generated exchanges of HTTP/2, whose names tell what was drawn. Each is in docs/differences.md, or says why
//! it is not worth a line there.

use super::known::Known;

/// What differs where an answer is accepted by one of the two only.
const OTHER_ANSWERS: &[&str] = &[
    "client 1 *",
    "log lines",
    "log * %ST",
    "log * %T*",
    "log * %rc",
    "log * %tsc",
    "s1 connections",
    "s1#* bytes",
    "s1#* connection earlier",
    "s1#* end *",
];

/// What differs where a request is accepted by one of the two only.
const OTHER_REQUESTS: &[&str] = &[
    "client 1 *",
    "log lines",
    "log * %H*",
    "log * %ST",
    "log * %T*",
    "log * %b",
    "log * %bc",
    "log * %sc",
    "log * %r",
    "log * %s",
    "log * %tsc",
    "s1 connections",
    "s1#* bytes",
    "s1#* end *",
];

pub const KNOWN: &[Known] = &[
    Known {
        cases: &["http2/*"],
        aspects: &["s1#* end *", "client 1 end later", "client 1 end earlier"],
        reason: "how, and how soon, a connection ends that nobody needs any more",
    },
    Known {
        cases: &["http2/*/continued-empty*", "http2/*/trailers-none*", "http2/*/block-empty*"],
        aspects: &["*"],
        reason: "the reference takes HEADERS without octets for an error of the connection, which RFC 9113 does not say they are",
    },
    Known {
        cases: &["http2/*/unknown-frame*"],
        aspects: &["*"],
        reason: "frames of unknown types are ignored (RFC 9113 section 5.5); the reference ends streams that their client had ended",
    },
    Known {
        cases: &["http2/*/self-dependency*"],
        aspects: OTHER_REQUESTS,
        reason: "a stream that depends on itself is an error of the stream; in the reference of the connection",
    },
    Known {
        cases: &["http2/*/value-17k*", "http2/*/values-20k*", "http2/*/path-17k*", "http2/*/fields-110*"],
        aspects: &["*"],
        reason: "a head that is too large ends its stream, as far as it can be decoded; in the reference the connection",
    },
    Known {
        cases: &[
            "http2/*/trailers-upper*",
            "http2/*/trailers-pseudo*",
            "http2/*/trailers-connection*",
            "http2/*/trailers-encoding*",
            "http2/*/trailers-crlf*",
            "http2/*/trailers-length*",
            "http2/*/trailers-host*",
        ],
        aspects: &["*"],
        reason: "what came before trailers that are malformed was a request, and its stream is reset; the reference knows none",
    },
    Known {
        cases: &["http2/*/silent-drop*", "http2/*/reject*"],
        aspects: &["*"],
        reason: "silent-drop and reject end the whole connection of the client",
    },
    Known {
        cases: &["http2/*/s-goaway-first*"],
        aspects: OTHER_ANSWERS,
        reason: "what a server did not process is sent again; it is told that nobody waits for it there",
    },
    Known {
        cases: &["http2/*/s-not-http2*", "http2/*/s-no-settings*"],
        aspects: &["*"],
        reason: "a server that does not speak HTTP/2 is found out at the first response, and the request is not tried again",
    },
    Known {
        cases: &[
            "http2/*-2/*/s-trailers-pseudo*",
            "http2/*-2/*/s-trailers-no-end*",
            "http2/*-2/*/s-more*",
            "http2/*-2/*/s-less*",
        ],
        aspects: &["*"],
        reason: "what came before the breach is forwarded; the reference looks at all that came at once",
    },
    Known {
        cases: &["http2/*/s-103-ends*"],
        aspects: OTHER_REQUESTS,
        reason: "an interim response that ends its stream is malformed and not forwarded",
    },
    Known {
        cases: &["http2/*/s-te/*"],
        aspects: OTHER_ANSWERS,
        reason: "`te` in a response is malformed (RFC 9113 section 8.2.2); the reference leaves it out",
    },
    Known {
        cases: &["http2/*/h2c*"],
        aspects: &["s1#* bytes"],
        reason: "HTTP2-Settings goes with the upgrade that it is of (RFC 7540 section 3.2.1)",
    },
    Known {
        cases: &["http2/*/te-upper*"],
        aspects: &["*"],
        reason: "names of codings have no case (RFC 9110 section 10.1.4); the reference refuses `TE: Trailers`",
    },
    Known {
        cases: &[
            "http2/*/value-delete*",
            "http2/*/value-control*",
            "http2/*/name-delete*",
            "http2/*/path-delete*",
            "http2/*/protocol-bad*",
            "http2/*/options/*method-*",
        ],
        aspects: &["*"],
        reason: "field values with control characters, protocols that are no token and `*` without OPTIONS are refused",
    },
    Known {
        cases: &[
            "http2/*/method-bad*",
            "http2/*/method-empty*",
            "http2/*/scheme-*",
            "http2/*/authority-empty*",
            "http2/*/path-fragment*/relaxed",
            "http2/*/path-tab/*relaxed",
            "http2/*/method-pri/body-*",
            "http2/*/method-high/body-*",
            "http2/*/https/body-cut/half-closes-later*",
        ],
        aspects: &["*"],
        reason: "which of what is no request is answered with 400, and which stream is reset; and options relax nothing of HTTP/2",
    },
    Known {
        cases: &["http2/*/body-more-later*", "http2/*/no-end*"],
        aspects: &["*"],
        reason: "a body that has all that was announced is complete for the server, whatever its client does with the stream",
    },
    Known {
        cases: &["http2/*/1-2/*s-103*", "http2/*/1-2/*s-100-103*"],
        aspects: &["client 1 bytes"],
        reason: "the phrase of 103 is Early Hints (RFC 8297)",
    },
    Known {
        cases: &["http2/*/connect/*"],
        aspects: &["*"],
        reason: "CONNECT has no length; its stream stays open towards servers until the tunnel ends, which the reference closes at once",
    },
    Known {
        cases: &["http2/*/protocol-other/*"],
        aspects: OTHER_REQUESTS,
        reason: "an upgrade has no body, as below",
    },
    Known {
        cases: &["http2/*/body-and-reset*"],
        aspects: &["client 1 *", "log *", "s1 connections", "s1#* script"],
        reason: "nothing is said of a stream that its client gave up, and it is logged as one that did not bring its body, wherever it \
                 was by then",
    },
    Known {
        cases: &[
            "http2/*/body-less*",
            "http2/*/body-after-end*",
            "http2/*/half-closes-*",
            "http2/*/length-twice/body-empty/*",
        ],
        aspects: &["log * %ST", "log * %s"],
        reason: "a request whose body was not whole when its stream ended is logged with 400, and with the server that it came to",
    },
    Known {
        cases: &["http2/*/window-zero*", "http2/*/data-first*", "http2/*/setting-push*"],
        aspects: &["log lines"],
        reason: "a breach that ends the connection has a line of its own",
    },
    Known {
        cases: &["http2/*/1-2/*/s-none*", "http2/*/1-2/*/s-trailers-only*"],
        aspects: &["client 1 bytes"],
        reason: "a response without a body has its length, 0; the reference sends it in chunks",
    },
    Known {
        cases: &[
            "http2/*-2/*/s-no-status*",
            "http2/*-2/*/s-status-*",
            "http2/*-2/*/s-name-*",
            "http2/*-2/*/s-value-*",
            "http2/*-2/*/s-pseudo-*",
            "http2/*-2/*/s-connection*",
            "http2/*-2/*/s-keep-alive*",
            "http2/*-2/*/s-transfer-encoding*",
            "http2/*-2/*/s-upgrade*",
            "http2/*-2/*/s-length-*",
        ],
        aspects: &["log lines", "log * %ST", "log * %rc", "log * %tsc", "log * %T*", "client 1 *", "s1*"],
        reason: "a malformed response ends its stream: 502, with PH. In the reference it may end the connection, or leave the stream to \
                 its timeout",
    },
    Known {
        cases: &[
            "http2/*/path-star*",
            "http2/*/authority-port*",
            "http2/*/host-twice*",
            "http2/*/host-only*/host-*",
        ],
        aspects: &["client 1 *", "log *", "s1*"],
        reason: "`*` is for OPTIONS, a port has digits, and a request has one Host (RFC 9110 sections 4.2, 7.1 and 7.2): refused",
    },
    Known {
        cases: &["http2/*/setting-protocol*", "http2/*/s-setting-protocol*"],
        aspects: &["client 1 *", "log *", "s1*"],
        reason: "SETTINGS_ENABLE_CONNECT_PROTOCOL is 0 or 1 (RFC 8441 section 3); other values end the connection",
    },
    Known {
        cases: &["http2/*/name-empty*"],
        aspects: &["client 1 *", "log lines", "s1 connections"],
        reason: "a field without a name makes its request malformed; in the reference it ends the connection, and requests behind it \
                 are lost",
    },
    Known {
        cases: &["http2/*/window-too-large*", "http2/*/window-stream-too-large*"],
        aspects: &["log lines", "client 1 bytes"],
        reason: "a breach that ends the connection has a line of its own, and one of a stream resets that",
    },
    Known {
        cases: &["http2/*/s-values-20k*", "http2/*/1-2/*/s-fields-110*"],
        aspects: &["client 1 bytes", "log lines", "log * %rc", "log * %tsc", "s1#* bytes", "s1 connections"],
        reason: "a response that is too large ends its stream, with PH; in the reference the connection, with SH",
    },
    Known {
        cases: &["http2/*/2-2/*http2-settings*"],
        aspects: &["s1#* bytes"],
        reason: "HTTP2-Settings is of the connection (RFC 7540 section 3.2.1) and not forwarded",
    },
    Known {
        cases: &[
            "http2/*/1-2/*/upgrade*",
            "http2/*/1-2/*/websocket*",
            "http2/*/1-2/*/s-resets*",
            "http2/*/1-2/*/s-data-first*",
            "http2/*/1-2/*/s-status-low*",
            "http2/*/1-2/*/s-status-short*",
            "http2/*/1-2/*/s-goaway-error*",
            "http2/*/1-2/*/s-pushes*",
            "http2/*/2-1/*-early/*",
            "http2/*/2-1/*-early",
            "http2/*/2-1/*-early-close*",
            "http2/*/2-2/*/s-resets*",
            "http2/*/2-2/*/s-data-first*",
            "http2/*/2-2/*/s-window-stream-too-large*",
        ],
        aspects: &[
            "client 1 bytes",
            "client 1 end Closed/O*",
            "client 1 script",
            "log lines",
            "log * %tsc",
            "s1 connections",
            "s1#* bytes",
        ],
        reason: "a later request of a client that fails on a connection that was used before is answered with 502, or sent \
                 again; the reference says nothing, or REFUSED_STREAM, so that the client tries again, and logs nothing",
    },
    Known {
        cases: &[
            "http2/*/1-2/websocket/*",
            "http2/*/1-2/upgrade/*",
            "http2/*/1-2/*/websocket/*",
            "http2/*/1-2/*/upgrade/*",
        ],
        aspects: &[
            "client 1 bytes",
            "client 1 end Closed/Open",
            "client 1 end Closed/Ours",
            "log lines",
            "log * %rc",
            "log * %tsc",
            "s1 connections",
            "s1#* bytes",
            "s1#* script",
        ],
        reason: "an upgrade that a server of HTTP/2 does not take is answered with 502, and the client's connection goes on, with the \
                 requests behind it; the reference closes it",
    },
    Known {
        cases: &["http2/*/1-2/*get-1.0*"],
        aspects: &["client 1 bytes"],
        reason: "HTTP/1.0 clients get no chunks: the body is decoded and the connection closed",
    },
    Known {
        cases: &["http2/*/s-resets-in-body*"],
        aspects: &["client 1 bytes", "s1#1 bytes"],
        reason: "what came before the reset is forwarded; a stream that its server gave up is not reset in return",
    },
    Known {
        cases: &["http2/*/path-long/*"],
        aspects: &["log *"],
        reason: "the line is cut, where the fields before have other lengths",
    },
    Known {
        cases: &["http2/*/1-2/*breaks*", "http2/*/1-2/*half-closes*"],
        aspects: &["*"],
        reason: "what was sent right before a client leaves may arrive or not",
    },
    Known {
        cases: &["http2/*/extended/*"],
        aspects: &["*"],
        reason: "what a server answers instead of changing the protocol is forwarded, unless it is a success; and an upgrade has no \
                 body. The reference answers 400",
    },
    Known {
        cases: &["http2/*/post/expect-other/body-less*"],
        aspects: &["s1 connections", "s1#* bytes", "s1#* script"],
        reason: "how far a request comes whose body turns out too short",
    },
    Known {
        cases: &["http2/*/method-blank/*"],
        aspects: &["client 1 bytes", "client 1 end Open/Ours", "client 1 script"],
        reason: "a method that is no token is answered with 400; the reference resets the stream, or does both",
    },
    Known {
        cases: &[
            "http2/*/authority-*/trailers*",
            "http2/*/length-*/trailers*",
            "http2/*/name-*/trailers*",
            "http2/*/path-tab/trailers*",
            "http2/*/te-*/trailers*",
            "http2/*/transfer-encoding/trailers*",
        ],
        aspects: &["client 1 *", "log lines", "s1 connections"],
        reason: "trailers of a stream that was reset for its head are ignored (RFC 9113 section 5.4.2); the reference ends the connection",
    },
    Known {
        cases: &[
            "http2/*/body-end-later/continued/get/pseudo-status/*",
            "http2/*/port-80/continued/options/*",
            "http2/*/body-unsized/continued/options/*",
            "http2/*/path-empty/continued/s-205*",
            "http2/*/body-large/continued/*",
        ],
        aspects: &["client 1 *", "log lines", "s1 connections"],
        reason: "the reference may take a CONTINUATION frame that comes in pieces for one of a wrong size, and ends the connection",
    },
    Known {
        cases: &["http2/*/expect/*wait-for-body*"],
        aspects: &["client 1 bytes", "s1#* bytes"],
        reason: "a body that is there was not waited for (RFC 9110 section 10.1.1): no 100, and the server is told of the expectation",
    },
    Known {
        cases: &["http2/*-2/*head/*s-trailers", "http2/*-2/*head/*s-trailers/*"],
        aspects: &["client 1 bytes"],
        reason: "an answer to HEAD ends with its head: trailers go with a body",
    },
    Known {
        cases: &["http2/*-2/*/host-empty/*"],
        aspects: &["s1#* bytes"],
        reason: "an authority without octets is left out (RFC 9113 section 8.3.1)",
    },
    Known {
        cases: &["http2/*/length-zeros/*"],
        aspects: &["s1#* bytes"],
        reason: "a length with zeros in front is forwarded as it came (RFC 9110 section 8.6 allows them)",
    },
    Known {
        cases: &["http2/*/s-until-close/*httpclose*"],
        aspects: &["client 1 bytes"],
        reason: "a response that ends with its connection is whole; the reference resets its stream behind the last octet",
    },
    Known {
        cases: &["http2/*/2-2/*/and-next/*"],
        aspects: &["s1 connections", "s1#* bytes"],
        reason: "requests that are under way at once share a connection as soon as one of them has it",
    },
    Known {
        cases: &["http2/*/and-next/*"],
        aspects: &["log * %bc", "log * %sc"],
        reason: "which of requests that are under way at once reaches its server first, or leaves it first",
    },
    Known {
        cases: &[
            "http2/*/setting-frame-*",
            "http2/*/setting-window*",
            "http2/*/window-stream-too-large*",
            "http2/*/table-too-large*",
            "http2/*/data-0*",
            "http2/*/ping-short*",
            "http2/*/goaway-stream*",
            "http2/*/reset-first*",
            "http2/*/body-padding-long*",
        ],
        aspects: &[
            "log lines",
            "log * %ST",
            "log * %Tc",
            "log * %Tw",
            "log * %s",
            "log * %tsc",
            "s1 connections",
            "s1#* bytes",
        ],
        reason: "how far a request was that a breach of the connection cuts",
    },
    Known {
        cases: &["http2/*/interrupted/*"],
        aspects: &["s1 connections"],
        reason: "whether a request that its client cuts has reached a server",
    },
    Known {
        cases: &["http2/*/goaway-error-closes-at-once/*"],
        aspects: &["log * %T* earlier"],
        reason: "a client that is gone is noticed at once",
    },
    Known {
        cases: &["http2/*/1-2/get-1.0/*/s-500/*retry*"],
        aspects: &["s1 connections", "s1#* bytes"],
        reason: "the first request of a session is sent again on a connection of its own, too (`http-reuse safe`); the reference takes \
                 the one that answered",
    },
    Known {
        cases: &["http2/*/2-2/*", "http2/*/2-1/*wait-for-body*"],
        aspects: &["log * %Ti earlier", "log * %Tq earlier", "log * %Tt earlier"],
        reason: "a request is idle since the last one ended. The reference counts from when its connection was last without streams, \
                 and one that its client has all of may not be gone on its own side when the next one comes",
    },
    Known {
        cases: &["http2/*/2-2/*", "http2/*/2-1/*body-slow*"],
        aspects: &["log * %Ta earlier", "log * %Tt earlier", "log * %Ti later"],
        reason: "what came before a malformed request is its idle time (`%Ti`), as of any other; in the reference its active one",
    },
    Known {
        cases: &["http2/*/length-huge/body-slow/*"],
        aspects: &["client 1 byte earlier"],
        reason: "what is no request does not make an idle connection last longer",
    },
    Known {
        cases: &["http2/*/2-1/*-in-pieces*"],
        aspects: &["client 1 bytes", "log * %ST", "log * %T*", "log * %tsc"],
        reason: "beside others the reference may take a response that comes in pieces for a broken one, and answers 502",
    },
    Known {
        cases: &["http2/*/2-1/*-early-close*"],
        aspects: &["log * %tsc"],
        reason: "a response that is whole was not cut by its server, which wants no more of the request",
    },
    Known {
        cases: &["http2/*/1-2/*/closes/*reuse-never*", "http2/*/2-2/*/body-more/*s-goaway-error*"],
        aspects: &["s1#* bytes"],
        reason: "a server is told of a client that left or broke its request, on connections that end, too",
    },
];
