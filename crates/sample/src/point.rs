//! Evaluation points: where in the life of a session an expression is evaluated, and
//! which fetches can work there.

/// One place of the configuration where expressions are evaluated. The order is the order
/// of the columns of `-dKsmp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Point {
    /// `tcp-request connection`.
    FeConnection = 0,
    /// `tcp-request session`.
    FeSession,
    /// `tcp-request content` in a frontend.
    FeRequestContent,
    /// `http-request` in a frontend.
    FeHttpRequest,
    /// `http-request` in a frontend, with a body.
    FeHttpRequestBody,
    /// `use_backend`.
    UseBackend,
    /// `tcp-request content` in a backend.
    BeRequestContent,
    /// `http-request` in a backend.
    BeHttpRequest,
    /// `http-request` in a backend, with a body.
    BeHttpRequestBody,
    /// `use-server`, `balance`, `stick match`.
    UseServer,
    /// The server's `source` address and other connection settings.
    ServerSource,
    /// `tcp-response content` in a backend.
    BeResponseContent,
    /// `http-response` in a backend.
    BeHttpResponse,
    /// `http-response` in a backend, with a body.
    BeHttpResponseBody,
    /// `stick store-response`.
    StickStore,
    /// `tcp-response content` in a frontend.
    FeResponseContent,
    /// `http-response` in a frontend.
    FeHttpResponse,
    /// `http-response` in a frontend, with a body.
    FeHttpResponseBody,
    /// Log formats.
    Log,
    /// `tcp-check` and `http-check`.
    Check,
    /// The configuration parser (`set-var` in `global`).
    Config,
    /// The runtime CLI.
    Cli,
}

/// Number of points.
pub const POINTS: u32 = 22;

impl Point {
    /// This point alone.
    pub const fn set(self) -> Points {
        Points(1 << self as u8)
    }

    /// What the reference calls this place in its messages.
    pub const fn name(self) -> &'static str {
        [
            "frontend tcp-request connection rule",
            "frontend tcp-request session rule",
            "frontend tcp-request content rule",
            "frontend http-request header rule",
            "frontend http-request body rule",
            "frontend use-backend rule",
            "backend tcp-request content rule",
            "backend http-request header rule",
            "backend http-request body rule",
            "backend use-server, balance or stick-match rule",
            "server source selection",
            "backend tcp-response content rule",
            "backend http-response header rule",
            "backend http-response body rule",
            "backend stick-store rule",
            "frontend tcp-response content rule",
            "frontend http-response header rule",
            "frontend http-response body rule",
            "logs",
            "backend tcp-check rule",
            "configuration parser",
            "CLI parser",
        ][self as usize]
    }
}

/// A set of points.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Points(pub u32);

impl Points {
    /// Nowhere.
    pub const NONE: Points = Points(0);
    /// Everywhere.
    pub const ALL: Points = Points((1 << POINTS) - 1);

    const fn range(first: Point, last: Point) -> u32 {
        ((1 << (last as u32 + 1)) - 1) & !((1 << first as u32) - 1)
    }

    /// Facts of the process that exist once it runs: all but the configuration parser.
    pub const RUNTIME: Points = Points(Points::ALL.0 & !(1 << Point::Config as u32));
    /// The client's connection, or a health check: everywhere but the parsers.
    pub const L4_CLIENT: Points = Points(Points::range(Point::FeConnection, Point::Check));
    /// The frontend and listener: all traffic, no health check.
    pub const FRONTEND: Points = Points(Points::range(Point::FeConnection, Point::Log));
    /// The client's session once accepted.
    pub const L5_CLIENT: Points = Points(Points::range(Point::FeSession, Point::Log));
    /// The request's bytes: while the request is processed.
    pub const REQUEST: Points = Points(Points::range(Point::FeRequestContent, Point::ServerSource));
    /// Facts noted from the request: from there to the logs.
    pub const TRANSACTION: Points = Points(Points::range(Point::FeRequestContent, Point::Log));
    /// The request or the response, whichever is being processed; also checks.
    pub const EITHER: Points =
        Points(Points::range(Point::FeRequestContent, Point::FeHttpResponseBody) | 1 << Point::Check as u32);
    /// The backend: from its rules to the logs and checks.
    pub const BACKEND: Points = Points(Points::range(Point::BeRequestContent, Point::Check));
    /// Facts known once the backend's server is being chosen, to the logs.
    pub const BYTES_OUT: Points = Points(Points::range(Point::UseServer, Point::Log));
    /// The server: from its connection settings to checks.
    pub const SERVER: Points = Points(Points::range(Point::ServerSource, Point::Check));
    /// The server's connection and noted facts of the response.
    pub const RESPONSE_INFO: Points = Points(Points::range(Point::BeResponseContent, Point::Check));
    /// The response's bytes: while the response is processed; also checks.
    pub const RESPONSE: Points =
        Points(Points::range(Point::BeResponseContent, Point::FeHttpResponseBody) | 1 << Point::Check as u32);

    /// The first point of the set.
    pub fn first(self) -> Option<Point> {
        self.nth(self.0.trailing_zeros())
    }

    /// The point with number `n`, in or out of the set.
    pub(crate) fn nth(self, n: u32) -> Option<Point> {
        use Point::*;
        const ALL: [Point; POINTS as usize] = [
            FeConnection,
            FeSession,
            FeRequestContent,
            FeHttpRequest,
            FeHttpRequestBody,
            UseBackend,
            BeRequestContent,
            BeHttpRequest,
            BeHttpRequestBody,
            UseServer,
            ServerSource,
            BeResponseContent,
            BeHttpResponse,
            BeHttpResponseBody,
            StickStore,
            FeResponseContent,
            FeHttpResponse,
            FeHttpResponseBody,
            Log,
            Check,
            Config,
            Cli,
        ];
        ALL.get(n as usize).copied()
    }

    /// Points of both.
    pub const fn or(self, other: Points) -> Points {
        Points(self.0 | other.0)
    }

    /// True when every point of `other` is in this set.
    pub const fn contains(self, other: Points) -> bool {
        self.0 & other.0 == other.0
    }

    /// True when the sets share a point.
    pub const fn meets(self, other: Points) -> bool {
        self.0 & other.0 != 0
    }

    /// The columns of `-dKsmp`: `Y` or `.` for each point, separated by spaces.
    pub fn columns(self) -> String {
        (0..POINTS).map(|i| if self.0 >> i & 1 == 1 { "Y " } else { ". " }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_those_of_the_table() {
        let check = |set: Points, expected: &str| assert_eq!(set.columns().trim_end(), expected);
        check(Points::ALL, "Y Y Y Y Y Y Y Y Y Y Y Y Y Y Y Y Y Y Y Y Y Y");
        check(Points::RUNTIME, "Y Y Y Y Y Y Y Y Y Y Y Y Y Y Y Y Y Y Y Y . Y");
        check(Points::L5_CLIENT, ". Y Y Y Y Y Y Y Y Y Y Y Y Y Y Y Y Y Y . . .");
        check(Points::L4_CLIENT, "Y Y Y Y Y Y Y Y Y Y Y Y Y Y Y Y Y Y Y Y . .");
        check(Points::REQUEST, ". . Y Y Y Y Y Y Y Y Y . . . . . . . . . . .");
        check(Points::RESPONSE_INFO, ". . . . . . . . . . . Y Y Y Y Y Y Y Y Y . .");
        check(Points::RESPONSE, ". . . . . . . . . . . Y Y Y Y Y Y Y . Y . .");
        check(Points::EITHER, ". . Y Y Y Y Y Y Y Y Y Y Y Y Y Y Y Y . Y . .");
        check(Points::TRANSACTION, ". . Y Y Y Y Y Y Y Y Y Y Y Y Y Y Y Y Y . . .");
        check(Points::BACKEND, ". . . . . . Y Y Y Y Y Y Y Y Y Y Y Y Y Y . .");
        check(Points::FRONTEND, "Y Y Y Y Y Y Y Y Y Y Y Y Y Y Y Y Y Y Y . . .");
        check(Points::BYTES_OUT, ". . . . . . . . . Y Y Y Y Y Y Y Y Y Y . . .");
        check(Points::SERVER, ". . . . . . . . . . Y Y Y Y Y Y Y Y Y Y . .");
    }
}
