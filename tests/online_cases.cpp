#include "tests/online_cases.h"

namespace tilefuse {

using Reason = OnlineRefusalReason;

const std::vector<DerivedCase>& derived_cases() {
  static const std::vector<DerivedCase> cases = {
      {"softmax statistics", R"(
%m = reduce.max(%x[q,k]) over k
%p = exp(sub(%x, %m))
%l = reduce.add(%p) over k
)"},
      {"log-sum-exp", R"(
%m = reduce.max(%x[q,k]) over k
%p = exp(sub(%x, %m))
%l = reduce.add(%p) over k
%lse = add(%m, log(%l))
)"},
      {"attention", R"(
%s = contract(%Q[q,d], %K[k,d]) over d
%t = mul(%s, 0.4)
%m = reduce.max(%t) over k
%p = exp(sub(%t, %m))
%l = reduce.add(%p) over k
%o = contract(%p, %V[k,v]) over k
%y = div(%o, %l)
)"},
      {"attention, bias", R"(
%s = contract(%Q[q,d], %K[k,d]) over d
%t = add(mul(%s, 0.4), %bias[q,k])
%m = reduce.max(%t) over k
%p = exp(sub(%t, %m))
%l = reduce.add(%p) over k
%o = contract(%p, %V[k,v]) over k
%y = div(%o, %l)
)"},
      {"attention, bias reassociated", R"(
%s = contract(%Q[q,d], %K[k,d]) over d
%t = add(%s, %bias[q,k])
%m = reduce.max(%t) over k
%p = exp(add(%s, sub(%bias, %m)))
%l = reduce.add(%p) over k
%o = contract(%p, %V[k,v]) over k
%y = div(%o, %l)
)"},
      {"attention, mask", R"(
%s = contract(%Q[q,d], %K[k,d]) over d
%t = where(%mask[q,k], %s, -inf)
%m = reduce.max(%t) over k
%p = exp(sub(%t, %m))
%l = reduce.add(%p) over k
%o = contract(%p, %V[k,v]) over k
%y = div(%o, %l)
)"},
      {"attention, safe mask", R"(
%s = contract(%Q[q,d], %K[k,d]) over d
%t = where(%mask[q,k], %s, -inf)
%m0 = reduce.max(%t) over k
%m = where(eq(%m0, -inf), 0, %m0)
%p = exp(sub(%t, %m))
%l = reduce.add(%p) over k
%o = contract(%p, %V[k,v]) over k
%y = where(eq(%m0, -inf), 0, div(%o, %l))
)"},
      {"attention, causal", R"(
%s = contract(%Q[q,d], %K[k,d]) over d
%t = where(le(iota(k), mul(iota(q), 9)), %s, -inf)
%m = reduce.max(%t) over k
%p = exp(sub(%t, %m))
%l = reduce.add(%p) over k
%o = contract(%p, %V[k,v]) over k
%y = div(%o, %l)
)"},
      {"attention, alibi", R"(
%s = contract(%Q[q,d], %K[k,d]) over d
%t = add(%s, mul(-0.3, sub(iota(q), iota(k))))
%m = reduce.max(%t) over k
%p = exp(sub(%t, %m))
%l = reduce.add(%p) over k
%o = contract(%p, %V[k,v]) over k
%y = div(%o, %l)
)"},
      {"attention, soft cap", R"(
%s = contract(%Q[q,d], %K[k,d]) over d
%t = mul(3, tanh(div(%s, 3)))
%m = reduce.max(%t) over k
%p = exp(sub(%t, %m))
%l = reduce.add(%p) over k
%o = contract(%p, %V[k,v]) over k
%y = div(%o, %l)
)"},
      {"attention, sink", R"(
%s = contract(%Q[q,d], %K[k,d]) over d
%mx = reduce.max(%s) over k
%m = max(%mx, %sink[q])
%p = exp(sub(%s, %m))
%l0 = reduce.add(%p) over k
%l = add(%l0, exp(sub(%sink, %m)))
%o = contract(%p, %V[k,v]) over k
%y = div(%o, %l)
)"},
      {"attention, window", R"(
%s = contract(%Q[q,d], %K[k,d]) over d
%t = where(and(le(iota(k), mul(iota(q), 11)), gt(iota(k), sub(mul(iota(q), 11), 7))), %s, -inf)
%m = reduce.max(%t) over k
%p = exp(sub(%t, %m))
%l = reduce.add(%p) over k
%o = contract(%p, %V[k,v]) over k
%y = div(%o, %l)
)"},
      {"attention, two values", R"(
%s = contract(%Q[q,d], %K[k,d]) over d
%t = mul(%s, 0.4)
%m = reduce.max(%t) over k
%p = exp(sub(%t, %m))
%l = reduce.add(%p) over k
%o = contract(%p, %V[k,v]) over k
%y = div(%o, %l)
%o2 = contract(%p, %V2[k,n]) over k
%y2 = div(%o2, %l)
)"},
      {"attention, normalised first", R"(
%s = contract(%Q[q,d], %K[k,d]) over d
%t = mul(%s, 0.4)
%m = reduce.max(%t) over k
%p = exp(sub(%t, %m))
%l = reduce.add(%p) over k
%a = div(%p, %l)
%o = contract(%a, %V[k,v]) over k
)"},
      {"attention, guarded product", R"(
%s = contract(%Q[q,d], %K[k,d]) over d
%t = mul(%s, 0.4)
%m = reduce.max(%t) over k
%p = exp(sub(%t, %m))
%l = reduce.add(%p) over k
%o = contract(where(%mask[q,k], %p, 0), %V[k,v]) over k
)"},
      {"temperature in both", R"(
%t = div(%x[q,k], %temp[q])
%m = reduce.max(%t) over k
%p = exp(sub(%t, %m))
%l = reduce.add(%p) over k
)"},
      {"temperature outside", R"(
%m = reduce.max(%x[q,k]) over k
%p = exp(mul(sub(%x, %m), exp(%temp[q])))
%l = reduce.add(%p) over k
)"},
      {"cross-entropy", R"(
%m = reduce.max(%x[q,k]) over k
%p = exp(sub(%x, %m))
%l = reduce.add(%p) over k
%tl = reduce.add(where(eq(iota(k), %label[q]), %x, 0)) over k
%loss = sub(add(%m, log(%l)), %tl)
)"},
      {"entropy", R"(
%m = reduce.max(%x[q,k]) over k
%p = exp(sub(%x, %m))
%l = reduce.add(%p) over k
%y = div(%p, %l)
%logy = sub(sub(%x, %m), log(%l))
%H = reduce.add(neg(mul(%y, %logy))) over k
)"},
      {"entropy through log", R"(
%m = reduce.max(%x[q,k]) over k
%p = exp(sub(%x, %m))
%l = reduce.add(%p) over k
%y = div(%p, %l)
%H = reduce.add(mul(%y, log(%y))) over k
)"},
      {"entropy, guarded", R"(
%m = reduce.max(%x[q,k]) over k
%p = exp(sub(%x, %m))
%l = reduce.add(%p) over k
%y = div(%p, %l)
%logy = sub(sub(%x, %m), log(%l))
%H = reduce.add(where(%mask[q,k], mul(%y, %logy), 0)) over k
)"},
      {"z-loss", R"(
%m = reduce.max(%x[q,k]) over k
%p = exp(sub(%x, %m))
%l = reduce.add(%p) over k
%z = square(add(%m, log(%l)))
%zl = reduce.add(mul(%y0[q,k], sub(%x, add(%m, log(%l))))) over k
)"},
      {"mean and variance", R"(
%sum = reduce.add(%x[q,k]) over k
%mu = div(%sum, extent(k))
%c = sub(%x, %mu)
%ss = reduce.add(square(%c)) over k
%rstd = rsqrt(add(div(%ss, extent(k)), 1e-5))
)"},
      {"third and fourth moment", R"(
%sum = reduce.add(%x[q,k]) over k
%mu = div(%sum, extent(k))
%c = sub(%x, %mu)
%ss = reduce.add(square(%c)) over k
%rstd = rsqrt(add(div(%ss, extent(k)), 1e-5))
%m3 = reduce.add(pow(%c, 3)) over k
%m4 = reduce.add(pow(mul(%c, %rstd), 4)) over k
)"},
      {"masked mean and variance", R"(
%cnt = reduce.add(where(%mask[q,k], 1, 0)) over k
%sum = reduce.add(where(%mask, %x[q,k], 0)) over k
%mu = div(%sum, %cnt)
%ss = reduce.add(where(%mask, square(sub(%x, %mu)), 0)) over k
)"},
      {"covariance", R"(
%sum = reduce.add(%x[q,k]) over k
%mu = div(%sum, extent(k))
%sy = reduce.add(%z[q,k]) over k
%my = div(%sy, extent(k))
%cov = reduce.add(mul(sub(%x, %mu), sub(%z, %my))) over k
)"},
      {"layer norm into product", R"(
%sum = reduce.add(%x[q,k]) over k
%mu = div(%sum, extent(k))
%c = sub(%x, %mu)
%ss = reduce.add(square(%c)) over k
%rstd = rsqrt(add(div(%ss, extent(k)), 1e-5))
%y = contract(add(mul(mul(%c, %rstd), %w[k]), %b[k]), %W[k,n]) over k
)"},
      {"rms norm into product", R"(
%ss = reduce.add(square(%x[q,k])) over k
%r = rsqrt(add(div(%ss, extent(k)), 1e-6))
%y = contract(mul(mul(%x, %r), %w[k]), %W[k,n]) over k
)"},
      {"unrounded quantised product", R"(
%am = reduce.max(abs(%x[q,k])) over k
%sc = div(%am, 127)
%acc = contract(div(%x, %sc), %W[k,n]) over k
%y = mul(%acc, %sc)
)"},
      {"scaled norm", R"(
%am = reduce.max(abs(%x[q,k])) over k
%ss = reduce.add(square(div(%x, %am))) over k
%nrm = mul(%am, sqrt(%ss))
)"},
      {"l2 normalised product", R"(
%ss = reduce.add(square(%x[q,k])) over k
%y = contract(div(%x, max(sqrt(%ss), 1e-12)), %W[k,n]) over k
)"},
      {"log-softmax backward", R"(
%m = reduce.max(%x[q,k]) over k
%p = exp(sub(%x, %m))
%l = reduce.add(%p) over k
%y = div(%p, %l)
%logy = sub(sub(%x, %m), log(%l))
%g = reduce.add(%dy[q,k]) over k
%dx = sub(%dy, mul(exp(%logy), %g))
)"},
      {"backward delta over v", R"(
%s = contract(%Q[q,d], %K[k,d]) over d
%t = mul(%s, 0.4)
%m = reduce.max(%t) over k
%p = exp(sub(%t, %m))
%l = reduce.add(%p) over k
%o = contract(%p, %V[k,v]) over k
%y = div(%o, %l)
%delta = contract(%dy[q,v], %y) over v
)"},
      {"backward delta and dq over k", R"(
%s = contract(%Q[q,d], %K[k,d]) over d
%t = mul(%s, 0.4)
%m = reduce.max(%t) over k
%p = exp(sub(%t, %m))
%l = reduce.add(%p) over k
%o = contract(%p, %V[k,v]) over k
%y = div(%o, %l)
%dp = contract(%dy[q,v], %V) over v
%a = div(%p, %l)
%delta = reduce.add(mul(%a, %dp)) over k
%dq = contract(mul(mul(%a, sub(%dp, %delta)), 0.4), %K) over k
)"},
      {"unstable softmax has no anchor", R"(
%l = reduce.add(exp(%x[q,k])) over k
%o = contract(div(exp(%x), %l), %V[k,v]) over k
)"},
      {"exponent against the mean", R"(
%sum = reduce.add(%x[q,k]) over k
%mu = div(%sum, extent(k))
%l = reduce.add(exp(sub(%x, %mu))) over k
)"},
      {"angle addition", R"(
%sum = reduce.add(%x[q,k]) over k
%mu = div(%sum, extent(k))
%r = reduce.add(sin(add(%x, %mu))) over k
%c = reduce.add(mul(%x, cos(sub(mul(%x, 2), %mu)))) over k
)"},
      {"largest deviation", R"(
%sum = reduce.add(%x[q,k]) over k
%mu = div(%sum, extent(k))
%c = sub(%x, %mu)
%ss = reduce.add(square(%c)) over k
%rstd = rsqrt(add(div(%ss, extent(k)), 1e-5))
%dev = reduce.max(abs(mul(%c, %rstd))) over k
%low = reduce.min(mul(%x, %mu)) over k
%top = reduce.max(exp(sub(tanh(%x), %dev))) over k
)"},
      {"min by exponent", R"(
%lo = reduce.min(%x[q,k]) over k
%l = reduce.add(exp(sub(%lo, %x))) over k
)"},
  };
  return cases;
}

const std::vector<RefusedCase>& refused_cases() {
  static const std::vector<RefusedCase> cases = {
      {"relu against max",
       R"(
%m = reduce.max(%x[q,k]) over k
%p = exp(sub(%x, %m))
%l = reduce.add(%p) over k
%r = reduce.add(relu(sub(%x, %m))) over k
)",
       {{"r", Reason::NotSeparable}}},
      {"rank below the mean",
       R"(
%sum = reduce.add(%x[q,k]) over k
%mu = div(%sum, extent(k))
%r = reduce.add(where(lt(%x, %mu), 1, 0)) over k
)",
       {{"r", Reason::PredicateMoves}}},
      {"median by bisection",
       R"(
%sum = reduce.add(%x[q,k]) over k
%mu = div(%sum, extent(k))
%c = reduce.add(where(lt(%x, %mu), 1, 0)) over k
%h = where(lt(%c, 22), 0.1, -0.1)
%r = reduce.add(where(lt(%x, add(%mu, %h)), 1, 0)) over k
)",
       {{"c", Reason::PredicateMoves}, {"r", Reason::DependsOnRefused}}},
      {"exponent times max",
       R"(
%m = reduce.max(%x[q,k]) over k
%p = exp(sub(%x, %m))
%l = reduce.add(%p) over k
%r = reduce.add(mul(%x, exp(mul(mul(%x, %m), 0.1)))) over k
)",
       {{"r", Reason::ExponentMixes}}},
      {"moving temperature",
       R"(
%sum = reduce.add(%x[q,k]) over k
%mu = div(%sum, extent(k))
%c = sub(%x, %mu)
%ss = reduce.add(square(%c)) over k
%rstd = rsqrt(add(div(%ss, extent(k)), 1e-5))
%r = reduce.add(exp(mul(%x, %rstd))) over k
)",
       {{"r", Reason::ExponentMixes}}},
      {"gather at argmax",
       R"(
%m = reduce.max(%x[q,k]) over k
%p = exp(sub(%x, %m))
%l = reduce.add(%p) over k
%i = reduce.min(where(eq(%x, %m), iota(k), inf)) over k
%r = reduce.add(where(eq(iota(k), %i), %z[q,k], 0)) over k
)",
       {{"i", Reason::PredicateMoves}, {"r", Reason::DependsOnRefused}}},
      {"rounded quantised product",
       R"(
%am = reduce.max(abs(%x[q,k])) over k
%sc = div(%am, 127)
%acc = contract(round(div(%x, %sc)), %W[k,n]) over k
%y = mul(%acc, %sc)
)",
       {{"acc", Reason::RoundingMoves}}},
      {"mean absolute deviation",
       R"(
%sum = reduce.add(%x[q,k]) over k
%mu = div(%sum, extent(k))
%r = reduce.add(abs(sub(%x, %mu))) over k
)",
       {{"r", Reason::NotSeparable}}},
      {"sigmoid written out",
       R"(
%sum = reduce.add(%x[q,k]) over k
%mu = div(%sum, extent(k))
%r = reduce.add(recip(add(1, exp(sub(%mu, %x))))) over k
)",
       {{"r", Reason::NotSeparable}}},
      {"product of deviations",
       R"(
%sum = reduce.add(%x[q,k]) over k
%mu = div(%sum, extent(k))
%r = reduce.mul(sub(%x, %mu)) over k
)",
       {{"r", Reason::NotDistributive}}},
      {"max of x times deviation",
       R"(
%sum = reduce.add(%x[q,k]) over k
%mu = div(%sum, extent(k))
%r = reduce.max(mul(%x, sub(%x, %mu))) over k
)",
       {{"r", Reason::NotMonotone}}},
      {"nearest to the mean",
       R"(
%sum = reduce.add(%x[q,k]) over k
%mu = div(%sum, extent(k))
%r = reduce.min(abs(sub(%x, %mu))) over k
)",
       {{"r", Reason::NotMonotone}}},
      {"sixth power of three",
       R"(
%m = reduce.max(%x[q,k]) over k
%p = exp(sub(%x, %m))
%l = reduce.add(%p) over k
%r = reduce.add(pow(add(add(mul(%x, %m), mul(%z[q,k], %l)), mul(%u[q,k], square(%m))), 6)) over k
)",
       {{"r", Reason::TooManyStates}}},
      {"inner reduction",
       R"(
%m = reduce.max(%x[q,k]) over k
%p = exp(sub(%x, %m))
%l = reduce.add(%p) over k
%in = contract(%p, %K[k,d]) over d
%r = reduce.add(square(%in)) over k
)",
       {{"r", Reason::InnerReductionMixes}}},
  };
  return cases;
}

}  // namespace tilefuse
